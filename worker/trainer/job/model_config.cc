#include "worker/trainer/job/model_config.h"

namespace evenstep::trainer {

AttentionMask ToMask(jobspec::Attention attention) {
  return attention == jobspec::Attention::kFull ? AttentionMask::kFull
                                                : AttentionMask::kCausal;
}

DecoderConfig ToDecoderConfig(const jobspec::ModelSpec& model) {
  DecoderConfig config;
  config.layers = model.layers;
  config.width = model.width;
  config.heads = model.heads;
  config.kv_heads = model.kv_heads;
  config.vocab = model.vocab;
  config.mlp_width = model.mlp_width;
  config.rope_theta = model.rope_theta;
  config.norm_epsilon = model.norm_epsilon;
  config.attention = ToMask(model.attention);
  return config;
}

int PatchValues(const jobspec::ModelSpec& model) {
  return model.patch * model.patch * model.channels;
}

DiffusionTransformerConfig ToDiffusionTransformerConfig(
    const jobspec::ModelSpec& model) {
  DiffusionTransformerConfig config;
  config.layers = model.layers;
  config.width = model.width;
  config.heads = model.heads;
  config.channels = PatchValues(model);
  return config;
}

ModelRequest ToModelRequest(const jobspec::ModelSpec& model,
                            int64_t max_length) {
  ModelRequest request;
  request.layers = model.layers;
  request.width = model.width;
  request.heads = model.heads;
  request.kv_heads = model.kv_heads;
  request.vocab = model.vocab;
  request.max_length = max_length;
  request.attention = ToMask(model.attention);
  if (model.is_video()) request.patch_values = PatchValues(model);
  return request;
}

}  // namespace evenstep::trainer
