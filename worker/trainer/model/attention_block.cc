#include "worker/trainer/model/attention_block.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/add.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>

#include <tuple>

#include "worker/trainer/model/device_kernels.h"

namespace evenstep::trainer {
namespace {

// [L, N, D] as [1, N, L, D], and back.
at::Tensor HeadsFirst(const at::Tensor& x_LND) {
  return x_LND.transpose(0, 1).unsqueeze(0);
}
at::Tensor TokensFirst(const at::Tensor& x_1NLD) {
  return x_1NLD.squeeze(0).transpose(0, 1);
}

// [S, G, D] to [1, H, S, D]: head g serves H / G query heads in a row.
at::Tensor ForEachQueryHead(const at::Tensor& x_SGD, int64_t heads) {
  const int64_t kv_heads = x_SGD.size(1);
  const at::Tensor x_1GSD = HeadsFirst(x_SGD);
  if (kv_heads == heads) return x_1GSD;
  const int64_t tokens = x_SGD.size(0);
  const int64_t dim = x_SGD.size(2);
  return x_1GSD.unsqueeze(2)
      .expand({1, kv_heads, heads / kv_heads, tokens, dim})
      .reshape({1, heads, tokens, dim});
}

// The way back: the sum over the query heads that share a head.
at::Tensor SumOverQueryHeads(const at::Tensor& x_1HSD, int64_t kv_heads) {
  const int64_t heads = x_1HSD.size(1);
  if (kv_heads == heads) return TokensFirst(x_1HSD);
  return TokensFirst(x_1HSD
                         .reshape({1, kv_heads, heads / kv_heads,
                                   x_1HSD.size(2), x_1HSD.size(3)})
                         .sum(2));
}

}  // namespace

AttentionBlock AttendBlock(const at::Tensor& q_LHD, const at::Tensor& k_SGD,
                           const at::Tensor& v_SGD, AttentionMask mask) {
  TORCH_CHECK(mask == AttentionMask::kFull || q_LHD.size(0) == k_SGD.size(0),
              "a causal block of ", q_LHD.size(0), " queries over ",
              k_SGD.size(0), " keys");
  if (HasFlashAttention(q_LHD)) {
    return FlashAttendBlock(q_LHD, k_SGD, v_SGD, mask);
  }
  if (!q_LHD.is_cpu()) return AttendBlockByOps(q_LHD, k_SGD, v_SGD, mask);
  const int64_t heads = q_LHD.size(1);
  auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
      HeadsFirst(q_LHD), ForEachQueryHead(k_SGD, heads),
      ForEachQueryHead(v_SGD, heads),
      /*dropout_p=*/0.0, /*is_causal=*/mask == AttentionMask::kCausal);
  return {TokensFirst(out), std::move(lse)};
}

AttentionBlock MergeBlocks(const AttentionBlock& a, const AttentionBlock& b) {
  const at::Tensor lse_1HL = at::logaddexp(a.lse_1HL, b.lse_1HL);
  const auto weighted = [&lse_1HL](const AttentionBlock& part) {
    const at::Tensor weight_1HL = at::exp(at::sub(part.lse_1HL, lse_1HL));
    return at::mul(part.out_LHD, TokensFirst(weight_1HL.unsqueeze(3)));
  };
  return {at::add(weighted(a), weighted(b)).to(a.out_LHD.scalar_type()),
          lse_1HL};
}

AttentionBlockGradient AttendBlockBackward(const at::Tensor& dout_LHD,
                                           const at::Tensor& q_LHD,
                                           const at::Tensor& k_SGD,
                                           const at::Tensor& v_SGD,
                                           const AttentionBlock& whole,
                                           AttentionMask mask) {
  if (HasFlashAttention(q_LHD)) {
    return FlashAttendBlockBackward(dout_LHD, q_LHD, k_SGD, v_SGD, whole, mask);
  }
  if (!q_LHD.is_cpu()) {
    return AttendBlockBackwardByOps(dout_LHD, q_LHD, k_SGD, v_SGD, whole, mask);
  }
  const int64_t heads = q_LHD.size(1);
  const int64_t kv_heads = k_SGD.size(1);
  const auto [dq, dk, dv] =
      at::_scaled_dot_product_flash_attention_for_cpu_backward(
          HeadsFirst(dout_LHD), HeadsFirst(q_LHD),
          ForEachQueryHead(k_SGD, heads), ForEachQueryHead(v_SGD, heads),
          HeadsFirst(whole.out_LHD), whole.lse_1HL,
          /*dropout_p=*/0.0, /*is_causal=*/mask == AttentionMask::kCausal);
  return {TokensFirst(dq), SumOverQueryHeads(dk, kv_heads),
          SumOverQueryHeads(dv, kv_heads)};
}

}  // namespace evenstep::trainer
