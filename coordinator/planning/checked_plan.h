#ifndef EVENSTEP_COORDINATOR_PLANNING_CHECKED_PLAN_H_
#define EVENSTEP_COORDINATOR_PLANNING_CHECKED_PLAN_H_

// One step planned and proven. A plan that the checker refuses is never sent:
// `static` takes its place, and that is counted. Costs and speeds that no plan
// can be made with are dropped in favour of earlier ones, and that is counted
// too: an estimate never ends a job. Runs on planner threads; no shared state.

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "evenstep/v1/plan.pb.h"
#include "planner/plan.h"
#include "planner/request.h"

namespace evenstep::coordinator {

// The planner, exchangeable so that tests can plant a faulty one.
struct PlannerFunctions {
  std::function<absl::StatusOr<planner::Plan>(const planner::PlanRequest&)>
      make;
  std::function<absl::Status(const planner::PlanRequest&, const planner::Plan&)>
      check;
};
PlannerFunctions RealPlanner();

// What a plan is made with and what may come from measured times.
struct Estimates {
  planner::TimeModel costs;
  std::vector<double> rank_speeds;  // empty: all nominal
};

struct PlanWork {
  planner::PlanRequest request;
  int64_t generation = 0;
  int64_t step = 0;
  // In place of those of the request, one after another, where no plan can be
  // made with them.
  std::vector<Estimates> earlier = {};
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
  Estimates used = {};
  absl::Duration duration;
};

PlanOutcome MakeCheckedPlan(const PlanWork& work,
                            const PlannerFunctions& planner,
                            const Clock& clock);

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_PLANNING_CHECKED_PLAN_H_
