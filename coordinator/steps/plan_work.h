#ifndef EVENSTEP_COORDINATOR_STEPS_PLAN_WORK_H_
#define EVENSTEP_COORDINATOR_STEPS_PLAN_WORK_H_

// The work of a planner thread: one step planned and proven
// (planner/checked_plan.h), and made into the message that all ranks get. What
// was replaced on the way is counted. No shared state.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "evenstep/v1/plan.pb.h"
#include "planner/checked_plan.h"
#include "planner/request.h"

namespace evenstep::coordinator {

struct PlanWork {
  planner::PlanRequest request;
  int64_t generation = 0;
  int64_t step = 0;
  // In place of those of the request, one after another, where no plan can be
  // made with them.
  std::vector<planner::Estimates> earlier = {};
};

struct PlanOutcome {
  int64_t generation = 0;
  int64_t step = 0;
  // FAILED_PRECONDITION: no plan exists, with the numbers.
  absl::StatusOr<v1::StepPlan> plan = absl::UnknownError("not planned");
  // Not ok: why the job's policy was replaced by `static`.
  absl::Status refusal;
  // Not ok: why no plan could be made with the costs and speeds of the request;
  // earlier ones took their place.
  absl::Status estimate_refusal;
  // Those that the plan was made with.
  planner::Estimates used = {};
  absl::Duration duration;
};

PlanOutcome PlanStep(const PlanWork& work,
                     const planner::PlannerFunctions& planner,
                     const Clock& clock);

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_STEPS_PLAN_WORK_H_
