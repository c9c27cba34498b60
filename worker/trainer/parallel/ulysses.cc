#include "worker/trainer/parallel/ulysses.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/trainer/model/varlen_attention.h"

// Shapes: P ranks, T own tokens, S = P T all tokens, H query heads, G key and
// value heads, D dimension of a head; h = H / P query heads and g = max(1, G /
// P) key and value heads for each rank; C = h + 2 g.

namespace evenstep::trainer {

// What autograd's functions need of an UlyssesAttention.
struct UlyssesExchange {
  // Equal parts of a dense tensor to and from each rank. Throws on errors.
  static at::Tensor AllToAll(UlyssesAttention* attention,
                             const at::Tensor& send_P) {
    at::Tensor recv_P = at::empty(send_P.sizes(), send_P.options());
    const std::vector<int64_t> bytes(
        send_P.size(0), static_cast<int64_t>(send_P.nbytes()) / send_P.size(0));
    absl::Status status = attention->group_->AllToAllv(
        send_P.const_data_ptr(), bytes, recv_P.mutable_data_ptr(), bytes);
    if (!status.ok()) Fail(attention, std::move(status));
    return recv_P;
  }

  [[noreturn]] static void Fail(UlyssesAttention* attention,
                                absl::Status status) {
    if (attention->status_.ok()) attention->status_ = std::move(status);
    throw std::runtime_error(std::string(attention->status_.message()));
  }
};

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

UlyssesAttention* AttentionOf(AutogradContext* ctx) {
  return reinterpret_cast<UlyssesAttention*>(
      ctx->saved_data["attention"].toInt());
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
class ScatterHeads : public torch::autograd::Function<ScatterHeads> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& q_THD,
                               const at::Tensor& k_TGD, const at::Tensor& v_TGD,
                               int64_t ranks, UlyssesAttention* attention) {
    const int64_t tokens = q_THD.size(0);
    const int64_t dim = q_THD.size(2);
    const int64_t h = q_THD.size(1) / ranks;
    const int64_t g = std::max<int64_t>(1, k_TGD.size(1) / ranks);
    ctx->saved_data["attention"] = reinterpret_cast<int64_t>(attention);
    ctx->saved_data["heads"] = q_THD.size(1);
    ctx->saved_data["kv_heads"] = k_TGD.size(1);
    const at::Tensor send_PTCD =
        at::empty({ranks, tokens, h + 2 * g, dim}, q_THD.options());
    PackHeads(q_THD, 0, h, send_PTCD);
    PackHeads(k_TGD, h, g, send_PTCD);
    PackHeads(v_TGD, h + g, g, send_PTCD);
    const at::Tensor all_SCD =
        UlyssesExchange::AllToAll(attention, send_PTCD).flatten(0, 1);
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
    const at::Tensor packed_PTCD = UlyssesExchange::AllToAll(
        AttentionOf(ctx),
        send_SCD.view({ranks, all_tokens / ranks, h + 2 * g, dim}));
    return {UnpackHeads(packed_PTCD, 0, h, heads),
            UnpackHeads(packed_PTCD, h, g, kv_heads),
            UnpackHeads(packed_PTCD, h + g, g, kv_heads), at::Tensor(),
            at::Tensor()};
  }
};

// All tokens of own heads, [S, h, D], to own tokens of all heads, [T, H, D].
class GatherHeads : public torch::autograd::Function<GatherHeads> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& out_ShD,
                            int64_t ranks, UlyssesAttention* attention) {
    ctx->saved_data["attention"] = reinterpret_cast<int64_t>(attention);
    ctx->saved_data["ranks"] = ranks;
    const int64_t tokens = out_ShD.size(0) / ranks;
    const int64_t h = out_ShD.size(1);
    const int64_t dim = out_ShD.size(2);
    const at::Tensor by_rank_PThD = UlyssesExchange::AllToAll(
        attention, out_ShD.contiguous().view({ranks, tokens, h, dim}));
    return by_rank_PThD.transpose(0, 1).reshape({tokens, ranks * h, dim});
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const int64_t ranks = ctx->saved_data["ranks"].toInt();
    const int64_t tokens = gradients[0].size(0);
    const int64_t h = gradients[0].size(1) / ranks;
    const int64_t dim = gradients[0].size(2);
    const at::Tensor send_PThD = gradients[0]
                                     .reshape({tokens, ranks, h, dim})
                                     .transpose(0, 1)
                                     .contiguous();
    return {
        UlyssesExchange::AllToAll(AttentionOf(ctx), send_PThD).flatten(0, 1),
        at::Tensor(), at::Tensor()};
  }
};

}  // namespace

absl::Status CheckHeads(int64_t heads, int64_t kv_heads, int64_t degree) {
  if (heads % degree == 0 &&
      (kv_heads % degree == 0 || degree % kv_heads == 0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "degree ", degree, " does not fit ", heads, " query heads and ", kv_heads,
      " key and value heads: it must divide the first, and divide or be a "
      "multiple of the second"));
}

UlyssesAttention::UlyssesAttention(Communicator* group,
                                   const PackedShard* shard)
    : group_(group), shard_(shard) {}

at::Tensor UlyssesAttention::Attend(const at::Tensor& q_THD,
                                    const at::Tensor& k_TGD,
                                    const at::Tensor& v_TGD) {
  const int64_t ranks = shard_->degree;
  if (ranks == 1) {
    return VarlenAttention(q_THD, k_TGD, v_TGD, shard_->document_lengths);
  }
  absl::Status status = CheckHeads(q_THD.size(1), k_TGD.size(1), ranks);
  if (!status.ok()) UlyssesExchange::Fail(this, std::move(status));
  const variable_list all =
      ScatterHeads::apply(q_THD, k_TGD, v_TGD, ranks, this);
  const at::Tensor out_ShD =
      VarlenAttention(all[0], all[1], all[2], shard_->document_lengths);
  return GatherHeads::apply(out_ShD, ranks, this);
}

}  // namespace evenstep::trainer
