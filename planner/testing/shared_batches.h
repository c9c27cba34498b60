#ifndef EVENSTEP_PLANNER_TESTING_SHARED_BATCHES_H_
#define EVENSTEP_PLANNER_TESTING_SHARED_BATCHES_H_

// The five batches of the shared test data, as requests under their stated
// set-up: flexsp-7b-a100, degrees 1 to 64 in powers of two (contiguous blocks:
// all degrees), and 20 ms a micro-batch under per_step, or the model's 629.4 ms
// a round under per_round. Reads $EVENSTEP_SHARED_DATA, or ../shared/data
// beside $EVENSTEP_SOURCE_DIR. For tests and benchmarks.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/request.h"

namespace evenstep::planner::testing {

struct SharedBatch {
  std::string name;
  int num_nodes = 8;  // of 8 ranks
  int64_t tokens_per_rank = 6449;
};

const std::vector<SharedBatch>& SharedBatches();

// Where a file of the shared data would be.
std::string SharedDataPath(absl::string_view name);

// NOT_FOUND with the path where the data is absent.
absl::StatusOr<PlanRequest> LoadSharedBatch(
    const SharedBatch& batch, SyncMode sync = SyncMode::kPerStep,
    BlockShape blocks = BlockShape::kAligned);

}  // namespace evenstep::planner::testing

#endif  // EVENSTEP_PLANNER_TESTING_SHARED_BATCHES_H_
