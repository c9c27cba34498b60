#ifndef EVENSTEP_TRAINER_PACKED_SHARD_H_
#define EVENSTEP_TRAINER_PACKED_SHARD_H_

// One rank's part of a packed micro-batch: documents laid end to end, padded,
// and cut into equal shares of tokens, one a rank. A model need not know which
// tokens are its own: each comes with its position and target. Made by the
// engine, read by models. Plain data.
//
// All tensors are on the CPU, int64 unless another type is named: a model moves
// them to its device, at the start of Forward, since a later copy waits for
// what is queued there.
//
// Shapes: T own tokens, C values of a patch.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace evenstep::data {
struct ClipShape;
}

namespace evenstep::trainer {

// The target of a token that has no loss: the default of
// at::cross_entropy_loss.
inline constexpr int64_t kIgnoredTarget = -100;

// Of own tokens in one order, [T] each.
struct ClipTokens {
  at::Tensor condition_T;  // into PackedClips::timesteps
  at::Tensor frame_T;
  at::Tensor row_T;
  at::Tensor column_T;
};

// One rank's part of a micro-batch of clips, already noised: the video part of
// a PackedShard. A rank's tokens stand in one order around layers that attend
// within frames, and in another around layers that attend across them; where
// heads are exchanged instead, both are the same. ClipAttention::Arrange goes
// from one to the other.
struct PackedClips {
  // Of every clip, and, as the last, 0: of frames that are given and padding.
  std::vector<double> timesteps;
  ClipTokens by_frame;  // around spatial layers
  ClipTokens by_patch;  // around temporal layers
  // (1 - t) x + t noise at timestep t, by frame. float64.
  at::Tensor input_TC;
  // noise - x, by patch, and 1 where there is a loss, else 0. float64.
  at::Tensor target_TC;
  at::Tensor weight_T;
  // The engine's own, of the whole micro-batch.
  std::shared_ptr<const std::vector<data::ClipShape>> shapes;
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
  // Own tokens [T], T = padded_tokens / degree. Positions restart at each
  // document. Targets are kIgnoredTarget where there is no loss; so is all
  // padding.
  at::Tensor tokens_T;
  at::Tensor positions_T;
  at::Tensor targets_T;
  // Own tokens with a loss. May be 0 on some ranks of a group: see what hangs
  // the peers in model.h.
  int64_t trained_tokens = 0;
  // Of video; it stands in the place of the three tensors.
  std::shared_ptr<const PackedClips> clips = nullptr;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_TRAINER_PACKED_SHARD_H_
