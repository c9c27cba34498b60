#ifndef EVENSTEP_PLANNER_TESTING_SHARED_BATCHES_H_
#define EVENSTEP_PLANNER_TESTING_SHARED_BATCHES_H_

// The five batches of planner/testdata/batches, which tests and benchmarks
// share, as requests under their stated set-up: flexsp-7b-a100, degrees 1 to 64
// in powers of two (contiguous blocks: all degrees), and 20 ms a micro-batch
// under per_step, or the model's 629.4 ms a round under per_round. The
// repository is $EVENSTEP_SOURCE_DIR, or the working folder.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/request.h"

namespace evenstep::planner::testing {

struct SharedBatch {
  std::string name;
  int num_nodes = 8;  // of 8 ranks
  int64_t tokens_per_rank = 6449;
};

const std::vector<SharedBatch>& SharedBatches();

// NOT_FOUND with the path if the file is absent.
absl::StatusOr<PlanRequest> LoadSharedBatch(
    const SharedBatch& batch, SyncMode sync = SyncMode::kPerStep,
    BlockShape blocks = BlockShape::kAligned);

}  // namespace evenstep::planner::testing

#endif  // EVENSTEP_PLANNER_TESTING_SHARED_BATCHES_H_
