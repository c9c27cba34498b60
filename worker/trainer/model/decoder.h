#ifndef EVENSTEP_WORKER_TRAINER_MODEL_DECODER_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_DECODER_H_

// The 1D model: a decoder with RMSNorm, rotary positions, grouped-query
// attention, SwiGLU and an untied head (the architecture of Llama), causal, or
// with full attention for encoders of sequences. Initial parameters depend on
// the seed and on each parameter's name alone.

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "evenstep/trainer/model.h"

namespace evenstep::trainer {

struct DecoderConfig {
  int layers = 2;
  int width = 128;
  int heads = 4;
  int kv_heads = 4;
  int vocab = 257;
  // 0: 8/3 of the width, rounded up to a multiple of 32.
  int mlp_width = 0;
  double rope_theta = 10000.0;
  double norm_epsilon = 1e-5;
  uint64_t seed = 0;
  AttentionMask attention = AttentionMask::kCausal;
  // at::kFloat, at::kDouble or at::kBFloat16.
  at::ScalarType dtype = at::kFloat;
  // Where parameters stand and passes run.
  at::Device device = at::kCPU;
};

// The width of the MLP that a config means.
int MlpWidth(const DecoderConfig& config);

// INVALID_ARGUMENT with the numbers: sizes below 1, width not a multiple of
// heads, heads not a multiple of kv_heads, an odd dimension of a head, or
// another dtype.
absl::Status ValidateDecoderConfig(const DecoderConfig& config);

absl::StatusOr<std::unique_ptr<TextModel>> MakeDecoder(
    const DecoderConfig& config);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_DECODER_H_
