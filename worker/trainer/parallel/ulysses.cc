#include "worker/trainer/parallel/ulysses.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

// Shapes: P ranks, T own tokens, S = P T all tokens, H query heads, G key and
// value heads, D dimension of a head; h = H / P query heads and g = max(1, G /
// P) key and value heads for each rank; C = h + 2 g.

namespace evenstep::trainer {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

RankSubset* RanksOf(AutogradContext* ctx) {
  return reinterpret_cast<RankSubset*>(ctx->saved_data["ranks"].toInt());
}

// [T, N, D] into heads [first, first + n) of [P, T, C, D]: rank p gets its n of
// the N heads, or, where N < P, the one that serves it.
void PackHeads(const at::Tensor& x_TND, int64_t first, int64_t n,
               const at::Tensor& into_PTCD) {
  const int64_t ranks = into_PTCD.size(0);
  const int64_t tokens = x_TND.size(0);
  const int64_t heads = x_TND.size(1);
  const int64_t dim = x_TND.size(2);
  const at::Tensor to = into_PTCD.narrow(2, first, n);
  if (heads >= ranks) {
    to.copy_(x_TND.view({tokens, ranks, n, dim}).transpose(0, 1));
    return;
  }
  const int64_t copies = ranks / heads;
  to.view({heads, copies, tokens, 1, dim})
      .copy_(x_TND.transpose(0, 1).unsqueeze(1).unsqueeze(3).expand(
          {heads, copies, tokens, 1, dim}));
}

// The gradient of PackHeads: copies of a head add up.
at::Tensor UnpackHeads(const at::Tensor& packed_PTCD, int64_t first, int64_t n,
                       int64_t heads) {
  const int64_t ranks = packed_PTCD.size(0);
  const int64_t tokens = packed_PTCD.size(1);
  const int64_t dim = packed_PTCD.size(3);
  const at::Tensor part = packed_PTCD.narrow(2, first, n);
  if (heads >= ranks) {
    return part.transpose(0, 1).reshape({tokens, heads, dim});
  }
  return part.reshape({heads, ranks / heads, tokens, dim})
      .sum(1)
      .transpose(0, 1)
      .contiguous();
}

// Own tokens of all heads to all tokens of own heads.
class ScatterFunction : public torch::autograd::Function<ScatterFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& q_THD,
                               const at::Tensor& k_TGD, const at::Tensor& v_TGD,
                               RankSubset* subset) {
    const int64_t ranks = subset->size();
    const int64_t tokens = q_THD.size(0);
    const int64_t dim = q_THD.size(2);
    const int64_t h = q_THD.size(1) / ranks;
    const int64_t g = std::max<int64_t>(1, k_TGD.size(1) / ranks);
    ctx->saved_data["ranks"] = reinterpret_cast<int64_t>(subset);
    ctx->saved_data["heads"] = q_THD.size(1);
    ctx->saved_data["kv_heads"] = k_TGD.size(1);
    const at::Tensor send_PTCD =
        at::empty({ranks, tokens, h + 2 * g, dim}, q_THD.options());
    PackHeads(q_THD, 0, h, send_PTCD);
    PackHeads(k_TGD, h, g, send_PTCD);
    PackHeads(v_TGD, h + g, g, send_PTCD);
    const at::Tensor all_SCD = subset->AllToAll(send_PTCD).flatten(0, 1);
    return {all_SCD.narrow(1, 0, h), all_SCD.narrow(1, h, g),
            all_SCD.narrow(1, h + g, g)};
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const int64_t heads = ctx->saved_data["heads"].toInt();
    const int64_t kv_heads = ctx->saved_data["kv_heads"].toInt();
    const int64_t h = gradients[0].size(1);
    const int64_t g = gradients[1].size(1);
    const int64_t dim = gradients[0].size(2);
    const int64_t ranks = heads / h;
    const int64_t all_tokens = gradients[0].size(0);
    const at::Tensor send_SCD =
        at::empty({all_tokens, h + 2 * g, dim}, gradients[0].options());
    send_SCD.narrow(1, 0, h).copy_(gradients[0]);
    send_SCD.narrow(1, h, g).copy_(gradients[1]);
    send_SCD.narrow(1, h + g, g).copy_(gradients[2]);
    const at::Tensor packed_PTCD = RanksOf(ctx)->AllToAll(
        send_SCD.view({ranks, all_tokens / ranks, h + 2 * g, dim}));
    return {UnpackHeads(packed_PTCD, 0, h, heads),
            UnpackHeads(packed_PTCD, h, g, kv_heads),
            UnpackHeads(packed_PTCD, h + g, g, kv_heads), at::Tensor()};
  }
};

// All tokens of own heads, [S, h, D], to own tokens of all heads, [T, H, D].
class GatherFunction : public torch::autograd::Function<GatherFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& out_ShD,
                            RankSubset* subset) {
    const int64_t ranks = subset->size();
    ctx->saved_data["ranks"] = reinterpret_cast<int64_t>(subset);
    const int64_t tokens = out_ShD.size(0) / ranks;
    const int64_t h = out_ShD.size(1);
    const int64_t dim = out_ShD.size(2);
    const at::Tensor by_rank_PThD =
        subset->AllToAll(out_ShD.reshape({ranks, tokens, h, dim}));
    return by_rank_PThD.transpose(0, 1).reshape({tokens, ranks * h, dim});
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const int64_t ranks = RanksOf(ctx)->size();
    const int64_t tokens = gradients[0].size(0);
    const int64_t h = gradients[0].size(1) / ranks;
    const int64_t dim = gradients[0].size(2);
    const at::Tensor send_PThD =
        gradients[0].reshape({tokens, ranks, h, dim}).transpose(0, 1);
    return {RanksOf(ctx)->AllToAll(send_PThD).flatten(0, 1), at::Tensor()};
  }
};

}  // namespace

absl::Status CheckHeads(int64_t heads, int64_t kv_heads, int64_t degree,
                        IrregularHeads irregular) {
  const bool regular = kv_heads % degree == 0 || degree % kv_heads == 0;
  if (heads % degree == 0 &&
      (regular || irregular == IrregularHeads::kExpand)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "degree ", degree, " does not fit ", heads, " query heads and ", kv_heads,
      " key and value heads: it must divide the first, and divide or be a "
      "multiple of the second, unless those are expanded"));
}

OwnHeads ScatterHeads(const at::Tensor& q_THD, const at::Tensor& k_TGD,
                      const at::Tensor& v_TGD, RankSubset* ranks) {
  const int64_t kv_heads = k_TGD.size(1);
  const bool regular =
      kv_heads % ranks->size() == 0 || ranks->size() % kv_heads == 0;
  const auto expanded = [&](const at::Tensor& x_TGD) {
    return regular ? x_TGD
                   : x_TGD.repeat_interleave(q_THD.size(1) / kv_heads, 1);
  };
  const variable_list own =
      ScatterFunction::apply(q_THD, expanded(k_TGD), expanded(v_TGD), ranks);
  return {own[0], own[1], own[2]};
}

at::Tensor GatherHeads(const at::Tensor& out_ShD, RankSubset* ranks) {
  return GatherFunction::apply(out_ShD, ranks);
}

}  // namespace evenstep::trainer
