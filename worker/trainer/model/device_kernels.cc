#include "worker/trainer/model/device_kernels.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

// Shapes beside those of the header: K = H / G query heads that share a head of
// keys; "GKLD" is [G, K, L, D].

namespace evenstep::trainer {
namespace {

at::ScalarType SumType(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

// [L, H, D] to [G, K, L, D], in the type that sums are made in.
at::Tensor ByKeyHead(const at::Tensor& x_LHD, int64_t kv_heads) {
  return x_LHD.to(SumType(x_LHD.scalar_type()))
      .unflatten(1, {kv_heads, x_LHD.size(1) / kv_heads})
      .permute({1, 2, 0, 3});
}

// [S, G, D] to [G, 1, S, D].
at::Tensor KeysFirst(const at::Tensor& x_SGD) {
  return x_SGD.to(SumType(x_SGD.scalar_type())).permute({1, 0, 2}).unsqueeze(1);
}

at::Tensor RowsFirst(const at::Tensor& x_GKLD, at::ScalarType type) {
  return x_GKLD.permute({2, 0, 1, 3}).flatten(1, 2).to(type);
}

at::Tensor Scores(const at::Tensor& q_GKLD, const at::Tensor& k_G1SD,
                  AttentionMask mask) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q_GKLD.size(3)));
  at::Tensor scores = at::matmul(q_GKLD, k_G1SD.transpose(2, 3)).mul_(scale);
  if (mask == AttentionMask::kCausal) {
    const at::Tensor later = at::ones({scores.size(2), scores.size(3)},
                                      scores.options().dtype(at::kBool))
                                 .triu_(1);
    scores.masked_fill_(later, -std::numeric_limits<double>::infinity());
  }
  return scores;
}

}  // namespace

at::Tensor RmsNormByOps(const at::Tensor& x_TW, const at::Tensor& weight_W,
                        double epsilon) {
  const at::Tensor x = x_TW.to(SumType(x_TW.scalar_type()));
  const at::Tensor inverse =
      at::rsqrt(x.square().mean({-1}, /*keepdim=*/true) + epsilon);
  return (x * inverse).to(x_TW.scalar_type()) * weight_W;
}

at::Tensor RotateByOps(const at::Tensor& x_TND, const RotaryTable& table) {
  const std::vector<at::Tensor> halves = x_TND.chunk(2, -1);
  const at::Tensor cos = table.cos.unsqueeze(1);
  const at::Tensor sin = table.sin.unsqueeze(1);
  return at::cat({halves[0] * cos - halves[1] * sin,
                  halves[1] * cos + halves[0] * sin},
                 -1)
      .to(x_TND.scalar_type());
}

AttentionBlock AttendBlockByOps(const at::Tensor& q_LHD,
                                const at::Tensor& k_SGD,
                                const at::Tensor& v_SGD, AttentionMask mask) {
  const at::Tensor scores =
      Scores(ByKeyHead(q_LHD, k_SGD.size(1)), KeysFirst(k_SGD), mask);
  const at::Tensor lse_GKL = at::logsumexp(scores, {-1});
  const at::Tensor weights = at::exp(scores - lse_GKL.unsqueeze(-1));
  return {RowsFirst(at::matmul(weights, KeysFirst(v_SGD)), q_LHD.scalar_type()),
          lse_GKL.flatten(0, 1).unsqueeze(0)};
}

// With P the weights and O the whole output: dV = P' dO,
// dS = P (dO V' - sum(dO O)), dQ = dS K, dK = dS' Q (Dao et al., 2022).
AttentionBlockGradient AttendBlockBackwardByOps(const at::Tensor& dout_LHD,
                                                const at::Tensor& q_LHD,
                                                const at::Tensor& k_SGD,
                                                const at::Tensor& v_SGD,
                                                const AttentionBlock& whole,
                                                AttentionMask mask) {
  const int64_t kv_heads = k_SGD.size(1);
  const at::ScalarType type = q_LHD.scalar_type();
  const double scale = 1.0 / std::sqrt(static_cast<double>(q_LHD.size(2)));
  const at::Tensor q = ByKeyHead(q_LHD, kv_heads);
  const at::Tensor k = KeysFirst(k_SGD);
  const at::Tensor dout = ByKeyHead(dout_LHD, kv_heads);
  const at::Tensor out = ByKeyHead(whole.out_LHD, kv_heads);
  const at::Tensor lse_GKL1 = whole.lse_1HL.squeeze(0)
                                  .unflatten(0, {kv_heads, q.size(1)})
                                  .unsqueeze(-1);
  const at::Tensor weights = at::exp(Scores(q, k, mask) - lse_GKL1);
  const at::Tensor dweights =
      at::matmul(dout, KeysFirst(v_SGD).transpose(2, 3));
  const at::Tensor dscores =
      weights * (dweights - (dout * out).sum({-1}, /*keepdim=*/true));
  const auto for_keys = [type](const at::Tensor& x_GKSD) {
    return x_GKSD.sum({1}).permute({1, 0, 2}).to(type);
  };
  return {RowsFirst(at::matmul(dscores, k) * scale, type),
          for_keys(at::matmul(dscores.transpose(2, 3), q) * scale),
          for_keys(at::matmul(weights.transpose(2, 3), dout))};
}

bool HasFlashVarlenAttention(const at::Tensor& q_SHD) {
  return q_SHD.is_cuda() && (q_SHD.scalar_type() == at::kBFloat16 ||
                             q_SHD.scalar_type() == at::kHalf);
}

at::Tensor FlashVarlenAttention(const at::Tensor& q_SHD,
                                const at::Tensor& k_SGD,
                                const at::Tensor& v_SGD,
                                const std::vector<int64_t>& lengths,
                                AttentionMask mask) {
  at::Tensor bounds = at::zeros({static_cast<int64_t>(lengths.size()) + 1},
                                at::TensorOptions().dtype(at::kInt));
  int32_t* bound = bounds.mutable_data_ptr<int32_t>();
  for (size_t i = 0; i < lengths.size(); ++i) {
    bound[i + 1] = bound[i] + static_cast<int32_t>(lengths[i]);
  }
  const int64_t used = bound[lengths.size()];
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  bounds = bounds.to(q_SHD.device());
  const auto real = [used](const at::Tensor& x) {
    return x.narrow(0, 0, used).contiguous();
  };
  const at::Tensor out = std::get<0>(at::_flash_attention_forward(
      real(q_SHD), real(k_SGD), real(v_SGD), bounds, bounds, longest, longest,
      /*dropout_p=*/0.0, /*is_causal=*/mask == AttentionMask::kCausal,
      /*return_debug_mask=*/false, /*scale=*/std::nullopt));
  const int64_t padding = q_SHD.size(0) - used;
  return padding == 0 ? out
                      : at::constant_pad_nd(out, {0, 0, 0, 0, 0, padding});
}

int64_t CountNotFiniteByOps(const at::Tensor& values) {
  return at::isfinite(values).logical_not().sum().item<int64_t>();
}

double SquareSumByOps(const at::Tensor& values) {
  return values.to(at::kDouble).square().sum().item<double>();
}

}  // namespace evenstep::trainer
