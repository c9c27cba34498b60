#ifndef EVENSTEP_WORKER_TRAINER_MODEL_PACKED_CLIPS_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_PACKED_CLIPS_H_

// One rank's part of a micro-batch of clips, already noised: the video part of
// a PackedShard. A rank's tokens stand in one order around layers that attend
// within frames, and in another around layers that attend across them
// (parallel/clip_layout.h says in which); where heads are exchanged instead,
// both are the same. Made by parallel/clip_shard.h, read by models. Plain data.
//
// Shapes: T own tokens, C values of a patch.

#include <ATen/core/Tensor.h>

#include <vector>

#include "data/clip.h"

namespace evenstep::trainer {

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

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_PACKED_CLIPS_H_
