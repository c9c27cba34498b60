#include "worker/trainer/generate/cached_attention.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "worker/trainer/model/attention_block.h"

namespace evenstep::trainer {

CachedAttention::CachedAttention(int num_layers, int64_t most_tokens)
    : most_tokens_(most_tokens), layers_(num_layers) {}

at::Tensor CachedAttention::Attend(const at::Tensor& q_THD,
                                   const at::Tensor& k_TGD,
                                   const at::Tensor& v_TGD,
                                   AttentionMask mask) {
  TORCH_CHECK(mask == AttentionMask::kCausal,
              "a model whose tokens see what comes after them cannot go on");
  TORCH_CHECK(next_layer_ < layers_.size(), "the model says that it has ",
              layers_.size(), " layers, but attends more often in a pass");
  Layer& layer = layers_[next_layer_++];
  const bool first = layer.num_tokens == 0;
  TORCH_CHECK(first || q_THD.size(0) == 1, "one token at a time, not ",
              q_THD.size(0));
  Keep(k_TGD, v_TGD, &layer);
  // A token that comes last sees all.
  return AttendBlock(q_THD, layer.k_SGD.narrow(0, 0, layer.num_tokens),
                     layer.v_SGD.narrow(0, 0, layer.num_tokens),
                     first ? AttentionMask::kCausal : AttentionMask::kFull)
      .out_LHD;
}

void CachedAttention::EndPass() {
  TORCH_CHECK(next_layer_ == layers_.size(), "the model says that it has ",
              layers_.size(), " layers, but attends ", next_layer_,
              " times in a pass");
  next_layer_ = 0;
}

void CachedAttention::Keep(const at::Tensor& k_TGD, const at::Tensor& v_TGD,
                           Layer* layer) {
  const int64_t added = k_TGD.size(0);
  TORCH_CHECK(layer->num_tokens + added <= most_tokens_, "room for ",
              most_tokens_, " tokens, not ", layer->num_tokens + added);
  if (!layer->k_SGD.defined()) {
    const std::vector<int64_t> shape = {most_tokens_, k_TGD.size(1),
                                        k_TGD.size(2)};
    layer->k_SGD = at::empty(shape, k_TGD.options());
    layer->v_SGD = at::empty(shape, v_TGD.options());
  }
  layer->k_SGD.narrow(0, layer->num_tokens, added).copy_(k_TGD);
  layer->v_SGD.narrow(0, layer->num_tokens, added).copy_(v_TGD);
  layer->num_tokens += added;
}

}  // namespace evenstep::trainer
