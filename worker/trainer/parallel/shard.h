#ifndef EVENSTEP_WORKER_TRAINER_PARALLEL_SHARD_H_
#define EVENSTEP_WORKER_TRAINER_PARALLEL_SHARD_H_

// Cuts a micro-batch into the parts of its group's ranks. Pure functions.

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/dataset.h"
#include "evenstep/trainer/packed_shard.h"
#include "worker/trainer/parallel/sequence_layout.h"

namespace evenstep::trainer {

// Share `rank` of `samples` packed in order: under Ulysses, total length 7 at
// degree 2 is padded to 8, so each rank has 4 tokens, the last one masked.
// INVALID_ARGUMENT: no samples, an empty one, one whose targets do not match
// its tokens, or a rank outside the degree.
absl::StatusOr<PackedShard> MakeShard(
    absl::Span<const data::SampleTokens> samples, const SequenceLayout& layout,
    int rank);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PARALLEL_SHARD_H_
