#ifndef EVENSTEP_PLANNER_TESTING_BRUTE_FORCE_H_
#define EVENSTEP_PLANNER_TESTING_BRUTE_FORCE_H_

// The oracle of the planner's tests: tries every division of the samples into
// micro-batches, every block and recompute mode for each, and under per_round
// every round. Not for per_step with contiguous blocks, where the order
// matters. Only for tiny requests (at most six samples on four ranks, say).
// Stateless.

#include <cstdint>

#include "absl/status/statusor.h"
#include "planner/request.h"

namespace evenstep::planner::testing {

// Step time of the best plan, its fixed cost included. The request must be
// valid. FAILED_PRECONDITION if there is no plan.
absl::StatusOr<int64_t> BruteForceStepNs(const PlanRequest& request);

// Whether some plan takes less than `step_ns`. Far cheaper where few do: eight
// samples on four ranks are no trouble.
bool FasterPlanExists(const PlanRequest& request, int64_t step_ns);

}  // namespace evenstep::planner::testing

#endif  // EVENSTEP_PLANNER_TESTING_BRUTE_FORCE_H_
