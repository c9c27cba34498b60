#include "worker/trainer/model/device_kernels.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>

// Shapes beside those of the header: K = H / G query heads that share a head of
// keys; "GKLD" is [G, K, L, D].

namespace evenstep::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

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

// [L, N, D] as a batch of one.
at::Tensor OneOf(const at::Tensor& x_LND) {
  return x_LND.contiguous().unsqueeze(0);
}

// In the table's type, which is wider than half precision; direction 1 rotates,
// -1 rotates back.
at::Tensor RotateHalves(const at::Tensor& x_TND, const at::Tensor& cos,
                        const at::Tensor& sin, double direction) {
  const int64_t half = x_TND.size(2) / 2;
  const auto first = [half](const at::Tensor& x) {
    return x.narrow(2, 0, half);
  };
  const auto second = [half](const at::Tensor& x) {
    return x.narrow(2, half, half);
  };
  const at::Tensor cos_T1D = cos.unsqueeze(1);
  const at::Tensor sin_T1D = sin.unsqueeze(1);
  const at::Tensor out = at::empty(x_TND.sizes(), x_TND.options());
  at::Tensor out_first = first(out);
  at::Tensor out_second = second(out);
  at::addcmul_out(out_first, first(x_TND) * cos_T1D, second(x_TND), sin_T1D,
                  -direction);
  at::addcmul_out(out_second, second(x_TND) * cos_T1D, first(x_TND), sin_T1D,
                  direction);
  return out;
}

class RotateByOpsFunction
    : public torch::autograd::Function<RotateByOpsFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_TND,
                            const at::Tensor& cos, const at::Tensor& sin) {
    ctx->save_for_backward({cos, sin});
    return RotateHalves(x_TND, cos, sin, 1.0);
  }
  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    return {RotateHalves(gradients[0], saved[0], saved[1], -1.0), at::Tensor(),
            at::Tensor()};
  }
};

// At most so many elements are widened or compared at once.
constexpr int64_t kPieceElements = int64_t{1} << 24;

// body(piece) for pieces of a dense tensor that are together the whole.
template <typename Body>
void ForEachPiece(const at::Tensor& values, const Body& body) {
  const at::Tensor flat = values.view({-1});
  for (int64_t start = 0; start < flat.size(0); start += kPieceElements) {
    body(flat.narrow(0, start, std::min(kPieceElements, flat.size(0) - start)));
  }
}

}  // namespace

RotaryTable MakeRotaryTableByOps(const at::Tensor& positions_T, int64_t dim,
                                 double theta, at::ScalarType type) {
  const at::TensorOptions wide = positions_T.options().dtype(at::kDouble);
  const at::Tensor frequency =
      at::pow(theta, at::arange(dim / 2, wide).mul_(-2.0 / dim));
  const at::Tensor angles =
      positions_T.to(at::kDouble).unsqueeze(1) * frequency.unsqueeze(0);
  return {angles.cos().to(type), angles.sin().to(type)};
}

at::Tensor RmsNormByOps(const at::Tensor& x_TW, const at::Tensor& weight_W,
                        double epsilon) {
  return at::rms_norm(x_TW, weight_W.sizes(), weight_W, epsilon);
}

at::Tensor RotateByOps(const at::Tensor& x_TND, const RotaryTable& table) {
  return RotateByOpsFunction::apply(x_TND, table.cos, table.sin);
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

bool HasFlashAttention(const at::Tensor& q_SHD) {
  constexpr int64_t kLargestHead = 256;
  const bool half =
      q_SHD.scalar_type() == at::kBFloat16 || q_SHD.scalar_type() == at::kHalf;
  return q_SHD.is_cuda() && half && q_SHD.size(2) % 8 == 0 &&
         q_SHD.size(2) <= kLargestHead;
}

DocumentBounds MakeDocumentBounds(const std::vector<int64_t>& lengths,
                                  at::Device device) {
  DocumentBounds documents;
  const at::Tensor bounds =
      at::zeros({static_cast<int64_t>(lengths.size()) + 1},
                at::TensorOptions().dtype(at::kInt));
  int32_t* bound = bounds.mutable_data_ptr<int32_t>();
  for (size_t i = 0; i < lengths.size(); ++i) {
    documents.used += lengths[i];
    documents.longest = std::max(documents.longest, lengths[i]);
    bound[i + 1] = static_cast<int32_t>(documents.used);
  }
  documents.bounds = bounds.to(device);
  return documents;
}

at::Tensor FlashVarlenAttention(const at::Tensor& q_SHD,
                                const at::Tensor& k_SGD,
                                const at::Tensor& v_SGD,
                                const DocumentBounds& documents,
                                AttentionMask mask) {
  const auto real = [&documents](const at::Tensor& x) {
    return x.narrow(0, 0, documents.used).contiguous();
  };
  const at::Tensor out = std::get<0>(at::_flash_attention_forward(
      real(q_SHD), real(k_SGD), real(v_SGD), documents.bounds, documents.bounds,
      documents.longest, documents.longest,
      /*dropout_p=*/0.0, /*is_causal=*/mask == AttentionMask::kCausal,
      /*return_debug_mask=*/false, /*scale=*/std::nullopt));
  const int64_t padding = q_SHD.size(0) - documents.used;
  return padding == 0 ? out
                      : at::constant_pad_nd(out, {0, 0, 0, 0, 0, padding});
}

AttentionBlock FlashAttendBlock(const at::Tensor& q_LHD,
                                const at::Tensor& k_SGD,
                                const at::Tensor& v_SGD, AttentionMask mask) {
  const auto result = at::_flash_attention_forward(
      OneOf(q_LHD), OneOf(k_SGD), OneOf(v_SGD), /*cum_seq_q=*/std::nullopt,
      /*cum_seq_k=*/std::nullopt, q_LHD.size(0), k_SGD.size(0),
      /*dropout_p=*/0.0, /*is_causal=*/mask == AttentionMask::kCausal,
      /*return_debug_mask=*/false, /*scale=*/std::nullopt);
  return {std::get<0>(result).squeeze(0), std::get<1>(result)};
}

AttentionBlockGradient FlashAttendBlockBackward(const at::Tensor& dout_LHD,
                                                const at::Tensor& q_LHD,
                                                const at::Tensor& k_SGD,
                                                const at::Tensor& v_SGD,
                                                const AttentionBlock& whole,
                                                AttentionMask mask) {
  // Of dropout, which there is not.
  const at::Tensor random_state =
      at::zeros({2}, q_LHD.options().dtype(at::kLong));
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      OneOf(dout_LHD), OneOf(q_LHD), OneOf(k_SGD), OneOf(v_SGD),
      OneOf(whole.out_LHD), whole.lse_1HL.contiguous(),
      /*cum_seq_q=*/at::Tensor(), /*cum_seq_k=*/at::Tensor(), q_LHD.size(0),
      k_SGD.size(0), /*dropout_p=*/0.0,
      /*is_causal=*/mask == AttentionMask::kCausal, random_state, random_state,
      /*scale=*/std::nullopt);
  return {dq.squeeze(0), dk.squeeze(0), dv.squeeze(0)};
}

int64_t CountNotFiniteByOps(const at::Tensor& values) {
  at::Tensor count = at::zeros({1}, values.options().dtype(at::kLong));
  ForEachPiece(values, [&count](const at::Tensor& piece) {
    count += at::isfinite(piece).logical_not_().sum();
  });
  return count.item<int64_t>();
}

at::Tensor SquareSumByOps(const at::Tensor& values) {
  at::Tensor sum = at::zeros({1}, values.options().dtype(at::kDouble));
  ForEachPiece(values, [&sum](const at::Tensor& piece) {
    sum += piece.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true)
               .square_()
               .sum();
  });
  return sum;
}

}  // namespace evenstep::trainer
