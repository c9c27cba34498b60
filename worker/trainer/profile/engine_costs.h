#ifndef EVENSTEP_WORKER_TRAINER_PROFILE_ENGINE_COSTS_H_
#define EVENSTEP_WORKER_TRAINER_PROFILE_ENGINE_COSTS_H_

// Measures what a job's engine costs, when an attempt starts and the job names
// no costs. Main thread only.

#include "absl/status/statusor.h"
#include "planner/request.h"
#include "worker/trainer/job/engine.h"
#include "worker/trainer/profile/measure_costs.h"

namespace evenstep::trainer {

// Which of its parts are measured, and as the job runs them.
MeasuredParts PartsToMeasure(const Engine& engine);

// Collective over the world. The job's state does not change.
absl::StatusOr<planner::TimeModel> MeasureEngineCosts(const TrainerSetup& setup,
                                                      const Engine& engine);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PROFILE_ENGINE_COSTS_H_
