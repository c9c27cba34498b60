#ifndef EVENSTEP_WORKER_TRAINER_JOB_EVALUATION_PLAN_H_
#define EVENSTEP_WORKER_TRAINER_JOB_EVALUATION_PLAN_H_

// Plans of an evaluation. Its samples are the same every time, so each rank
// makes the plans once, before the first step, from the same samples and costs,
// and planning is pure: all come to the same ones. The coordinator plans steps
// alone, whose samples only the ranks know in time. Pure functions.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/request.h"
#include "wire/step_plan.h"
#include "worker/trainer/job/trainer_setup.h"

namespace evenstep::trainer {

// In order, each of enough samples to be even. By the job's policy; where that
// has no plan or one that the checker refuses, by `static`, as the coordinator
// does. Every sample stands in one plan. FAILED_PRECONDITION: a sample fits no
// degree, with the numbers.
absl::StatusOr<std::vector<wire::StepPlan>> PlanEvaluation(
    const TrainerSetup& setup, const planner::TimeModel& costs,
    const std::vector<planner::Sample>& samples);

// Of all of them.
uint64_t DigestOf(const std::vector<wire::StepPlan>& plans);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_JOB_EVALUATION_PLAN_H_
