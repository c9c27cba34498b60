#ifndef EVENSTEP_WORKER_TRAINER_MODEL_DIFFUSION_TRANSFORMER_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_DIFFUSION_TRANSFORMER_H_

// The 2D model: a diffusion Transformer for video latents. Spatial layers,
// whose tokens attend within their frame, and temporal layers, whose tokens
// attend to the same patch of all frames, take turns. The timestep of a clip
// modulates every layer (adaptive norm, with one projection that all layers
// share; Chen et al., PixArt-alpha, 2024). Trained by rectified flow: the
// network predicts noise - x from (1 - t) x + t noise (Liu et al., 2023). The
// loss of a token is the mean of squared errors over its channels. Positions
// are rotary: row and column in spatial layers, frame in temporal ones. Initial
// parameters depend on the seed and on each parameter's name alone.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "evenstep/trainer/model.h"

namespace evenstep::trainer {

struct DiffusionTransformerConfig {
  int layers = 4;  // spatial and temporal in turn: even
  int width = 128;
  int heads = 4;
  int channels = 16;  // values of a patch
  // 0: as DecoderConfig.
  int mlp_width = 0;
  double rope_theta = 10000.0;
  double norm_epsilon = 1e-5;
  uint64_t seed = 0;
  // at::kFloat, at::kDouble or at::kBFloat16.
  at::ScalarType dtype = at::kFloat;
  // Where parameters stand and passes run.
  at::Device device = at::kCPU;
};

// INVALID_ARGUMENT with the numbers: sizes below 1, an odd number of layers,
// width not a multiple of heads, a dimension of a head that is not a multiple
// of 4, or another dtype.
absl::Status ValidateDiffusionTransformerConfig(
    const DiffusionTransformerConfig& config);

// Forward wants shards with clips.
class DiffusionTransformer : public Model {
 public:
  // [T, C] by patch: what the network says of noise - x, for shards whose loss
  // nobody asks for. Collective over the group of the micro-batch.
  virtual at::Tensor Predict(const PackedShard& shard,
                             SequenceAttention& attention,
                             const ForwardOptions& options) = 0;
};

absl::StatusOr<std::unique_ptr<DiffusionTransformer>> MakeDiffusionTransformer(
    const DiffusionTransformerConfig& config);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_DIFFUSION_TRANSFORMER_H_
