#ifndef EVENSTEP_WORKER_TRAINER_MODEL_PACKED_SHARD_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_PACKED_SHARD_H_

// One rank's part of a packed micro-batch: documents laid end to end, padded,
// and cut into equal shares of tokens, one a rank. Where each token stands is
// said in parallel/sequence_layout.h; models need not know. Made by
// parallel/shard.h, read by models. Plain data.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "data/clip.h"

namespace evenstep::trainer {

// One rank's part of a micro-batch of clips, already noised: the video part of
// a PackedShard. A rank's tokens stand in one order around layers that attend
// within frames, and in another around layers that attend across them
// (parallel/clip_layout.h says in which); where heads are exchanged instead,
// both are the same. Made by parallel/clip_shard.h, read by models. Plain data.
//
// Shapes: T own tokens, C values of a patch.

// Of own tokens in one order, [T] each, int64.
struct ClipTokens {
  at::Tensor condition_T;  // into PackedClips::timesteps
  at::Tensor frame_T;
  at::Tensor row_T;
  at::Tensor column_T;
};

struct PackedClips {
  std::vector<data::ClipShape> shapes;  // of the whole micro-batch
  // Of every clip, and, as the last, 0: of frames that are given and padding.
  std::vector<double> timesteps;
  ClipTokens by_frame;  // around spatial layers
  ClipTokens by_patch;  // around temporal layers
  // (1 - t) x + t noise at timestep t, by frame.
  at::Tensor input_TC;
  // noise - x, by patch, and 1 where there is a loss, else 0.
  at::Tensor target_TC;
  at::Tensor weight_T;
};

struct PackedShard {
  // Documents of the whole micro-batch, in order, padding left out.
  std::vector<int64_t> document_lengths;
  // Of the whole micro-batch: the sum of lengths, and padded.
  int64_t real_tokens = 0;
  int64_t padded_tokens = 0;
  int degree = 1;
  // degree = ulysses_degree * gather_degree: ranks that exchange heads, and
  // parts whose keys and values are gathered.
  int ulysses_degree = 1;
  int gather_degree = 1;
  // Own tokens [T], T = padded_tokens / degree, all int64. Positions restart at
  // each document. Targets are data::kIgnoredTarget where there is no loss; so
  // is all padding.
  at::Tensor tokens_T;
  at::Tensor positions_T;
  at::Tensor targets_T;
  // Own tokens with a loss.
  int64_t trained_tokens = 0;
  // Of video; it stands in the place of the three tensors.
  std::shared_ptr<const PackedClips> clips = nullptr;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_PACKED_SHARD_H_
