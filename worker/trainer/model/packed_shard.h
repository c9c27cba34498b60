#ifndef EVENSTEP_WORKER_TRAINER_MODEL_PACKED_SHARD_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_PACKED_SHARD_H_

// One rank's part of a packed micro-batch: documents laid end to end, padded at
// the tail to a multiple of the degree, and cut into equal runs of tokens, one
// a rank. Made by parallel/shard.h, read by models. Plain data.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace evenstep::trainer {

struct PackedShard {
  // Documents of the whole micro-batch, in order, padding left out.
  std::vector<int64_t> document_lengths;
  // Of the whole micro-batch: the sum of lengths, and padded.
  int64_t real_tokens = 0;
  int64_t padded_tokens = 0;
  int degree = 1;
  // Own tokens [T], T = padded_tokens / degree, all int64. Positions restart at
  // each document. Targets are data::kIgnoredTarget where there is no loss; so
  // is all padding.
  at::Tensor tokens_T;
  at::Tensor positions_T;
  at::Tensor targets_T;
  // Own tokens with a loss.
  int64_t trained_tokens = 0;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_PACKED_SHARD_H_
