#ifndef EVENSTEP_WORKER_TRAINER_PARALLEL_CLIP_SHARD_H_
#define EVENSTEP_WORKER_TRAINER_PARALLEL_CLIP_SHARD_H_

// Noises a micro-batch of clips and cuts it into the parts of its group's
// ranks: each makes just its own tokens, and all ranks of a group draw the same
// (model/sample_random.h). Pure functions.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/dataset.h"
#include "evenstep/trainer/packed_shard.h"

namespace evenstep::trainer {

// How a group shares clips: by switching, or in runs with heads exchanged.
enum class ClipSharing { kSwitch, kHeads };

struct ClipBatch {
  absl::Span<const data::SampleTokens> samples;
  absl::Span<const int64_t> sample_ids;  // parallel
  uint64_t seed = 0;                     // of the job
};

// Share `rank` of `degree`. One rank alone always switches. INVALID_ARGUMENT:
// no samples, one that is no sound clip or of other channels than the first,
// one with fewer frames or patches than ranks under kSwitch, or a rank outside
// the degree.
absl::StatusOr<PackedShard> MakeClipShard(const ClipBatch& batch, int degree,
                                          int rank, ClipSharing sharing);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PARALLEL_CLIP_SHARD_H_
