#include "worker/trainer/model/varlen_attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace evenstep::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rows [start, start + length) of [S, N, D] as [1, N, length, D].
at::Tensor Document(const at::Tensor& x_SND, int64_t start, int64_t length) {
  return x_SND.narrow(0, start, length).transpose(0, 1).unsqueeze(0);
}

// The way back: [1, N, length, D] into rows of [S, N, D].
void Put(const at::Tensor& x_1NLD, int64_t start, const at::Tensor& into_SND) {
  into_SND.narrow(0, start, x_1NLD.size(2))
      .copy_(x_1NLD.squeeze(0).transpose(0, 1));
}

// [S, N, D], where rows after `used` are zero and others are not yet written.
at::Tensor EmptyWithZeroTail(const at::Tensor& like_SND, int64_t used) {
  at::Tensor result = at::empty(like_SND.sizes(), like_SND.options());
  if (used < result.size(0)) {
    result.narrow(0, used, result.size(0) - used).zero_();
  }
  return result;
}

int64_t Total(const std::vector<int64_t>& lengths) {
  int64_t total = 0;
  for (int64_t length : lengths) total += length;
  return total;
}

// [1, G, L, D] to [1, H, L, D]: head g serves H / G query heads in a row.
at::Tensor ForEachQueryHead(const at::Tensor& x_1GLD, int64_t heads) {
  const int64_t kv_heads = x_1GLD.size(1);
  if (kv_heads == heads) return x_1GLD;
  return x_1GLD.unsqueeze(2)
      .expand({1, kv_heads, heads / kv_heads, x_1GLD.size(2), x_1GLD.size(3)})
      .reshape({1, heads, x_1GLD.size(2), x_1GLD.size(3)});
}

// The way back: the sum over the query heads that share a head.
at::Tensor SumOverQueryHeads(const at::Tensor& x_1HLD, int64_t kv_heads) {
  if (kv_heads == x_1HLD.size(1)) return x_1HLD;
  return x_1HLD
      .reshape({1, kv_heads, x_1HLD.size(1) / kv_heads, x_1HLD.size(2),
                x_1HLD.size(3)})
      .sum(2);
}

class VarlenAttentionFunction
    : public torch::autograd::Function<VarlenAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q_SHD,
                            const at::Tensor& k_SGD, const at::Tensor& v_SGD,
                            const std::vector<int64_t>& lengths) {
    const int64_t heads = q_SHD.size(1);
    at::Tensor out_SHD = EmptyWithZeroTail(q_SHD, Total(lengths));
    variable_list saved = {q_SHD, k_SGD, v_SGD, out_SHD};
    int64_t start = 0;
    for (int64_t length : lengths) {
      auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
          Document(q_SHD, start, length),
          ForEachQueryHead(Document(k_SGD, start, length), heads),
          ForEachQueryHead(Document(v_SGD, start, length), heads),
          /*dropout_p=*/0.0, /*is_causal=*/true);
      Put(out, start, out_SHD);
      saved.push_back(std::move(lse));
      start += length;
    }
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["lengths"] = lengths;
    return out_SHD;
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const std::vector<int64_t> lengths =
        ctx->saved_data["lengths"].toIntVector();
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& q_SHD = saved[0];
    const at::Tensor& k_SGD = saved[1];
    const at::Tensor& v_SGD = saved[2];
    const int64_t heads = q_SHD.size(1);
    const int64_t kv_heads = k_SGD.size(1);
    const int64_t total = Total(lengths);
    at::Tensor dq_SHD = EmptyWithZeroTail(q_SHD, total);
    at::Tensor dk_SGD = EmptyWithZeroTail(k_SGD, total);
    at::Tensor dv_SGD = EmptyWithZeroTail(v_SGD, total);
    int64_t start = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      const int64_t length = lengths[i];
      auto [dq, dk, dv] =
          at::_scaled_dot_product_flash_attention_for_cpu_backward(
              Document(gradients[0], start, length),
              Document(q_SHD, start, length),
              ForEachQueryHead(Document(k_SGD, start, length), heads),
              ForEachQueryHead(Document(v_SGD, start, length), heads),
              Document(saved[3], start, length), saved[4 + i],
              /*dropout_p=*/0.0, /*is_causal=*/true);
      Put(dq, start, dq_SHD);
      Put(SumOverQueryHeads(dk, kv_heads), start, dk_SGD);
      Put(SumOverQueryHeads(dv, kv_heads), start, dv_SGD);
      start += length;
    }
    return {dq_SHD, dk_SGD, dv_SGD, at::Tensor()};
  }
};

}  // namespace

at::Tensor VarlenAttention(const at::Tensor& q_SHD, const at::Tensor& k_SGD,
                           const at::Tensor& v_SGD,
                           const std::vector<int64_t>& lengths) {
  return VarlenAttentionFunction::apply(q_SHD, k_SGD, v_SGD, lengths);
}

}  // namespace evenstep::trainer
