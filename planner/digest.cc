#include "planner/digest.h"

namespace evenstep::planner {

uint64_t PlanDigest(const std::vector<Sample>& samples,
                    const std::vector<MicroBatch>& micro_batches) {
  Fnv1a hash;
  hash.Add(static_cast<int64_t>(micro_batches.size()));
  for (const MicroBatch& micro_batch : micro_batches) {
    hash.Add(micro_batch.first_rank);
    hash.Add(micro_batch.degree);
    hash.Add(micro_batch.round);
    hash.Add(micro_batch.recompute_layers[0]);
    hash.Add(micro_batch.padded_tokens);
    hash.Add(static_cast<int64_t>(micro_batch.samples.size()));
    for (int index : micro_batch.samples) hash.Add(samples[index].id);
    if (micro_batch.sp_mode == SpMode::kUlysses &&
        micro_batch.recompute_layers[1] == 0) {
      continue;
    }
    // Stands where the next block's first rank would: none is negative.
    hash.Add(-1);
    hash.Add(static_cast<int64_t>(micro_batch.sp_mode));
    hash.Add(micro_batch.ulysses_degree);
    hash.Add(micro_batch.recompute_layers[1]);
  }
  return hash.value();
}

}  // namespace evenstep::planner
