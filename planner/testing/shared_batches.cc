#include "planner/testing/shared_batches.h"

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/models/published_costs.h"

namespace evenstep::planner::testing {

const std::vector<SharedBatch>& SharedBatches() {
  static const auto* const kBatches = new std::vector<SharedBatch>{
      {"ln64"}, {"wiki64"}, {"wiki64b"}, {"ln8", 1, 12935}, {"ln8s", 1, 12935}};
  return *kBatches;
}

absl::StatusOr<PlanRequest> LoadSharedBatch(const SharedBatch& batch,
                                            SyncMode sync, BlockShape blocks) {
  const char* const source = std::getenv("EVENSTEP_SOURCE_DIR");
  const std::string path =
      absl::StrCat(source != nullptr ? source : ".",
                   "/planner/testdata/batches/", batch.name, ".txt");
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("no batch: ", path));
  EVENSTEP_ASSIGN_OR_RETURN(PublishedCosts costs,
                            FindPublishedCosts("flexsp-7b-a100"));
  PlanRequest request;
  int64_t length = 0;
  while (file >> length) {
    const auto id = static_cast<int64_t>(request.samples.size());
    request.samples.push_back({id, length, length});
  }
  request.cluster.ranks_per_node.assign(batch.num_nodes, 8);
  request.model = costs.model;
  request.options.sync = sync;
  request.options.blocks = blocks;
  // Of any degree, aligned blocks use the powers of two only.
  for (int degree = 1; degree <= 64; ++degree) {
    request.model.forced_degrees.push_back(degree);
  }
  request.time = costs.time;
  if (sync == SyncMode::kPerStep) {
    request.time.micro_batch_fixed_ns = 20'000'000;
  }
  request.memory.tokens_per_rank = batch.tokens_per_rank;
  return request;
}

}  // namespace evenstep::planner::testing
