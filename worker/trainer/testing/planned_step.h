#ifndef EVENSTEP_WORKER_TRAINER_TESTING_PLANNED_STEP_H_
#define EVENSTEP_WORKER_TRAINER_TESTING_PLANNED_STEP_H_

// What the planner makes of a request, as a trainer gets it: through the wire
// and back. For parity tests of real plans.

#include <vector>

#include "absl/status/statusor.h"
#include "planner/request.h"
#include "worker/trainer/testing/parity.h"

namespace evenstep::trainer::testing {

// The request's own policy; its errors are passed on.
absl::StatusOr<std::vector<TestMicroBatch>> PlannedStep(
    const planner::PlanRequest& request);

}  // namespace evenstep::trainer::testing

#endif  // EVENSTEP_WORKER_TRAINER_TESTING_PLANNED_STEP_H_
