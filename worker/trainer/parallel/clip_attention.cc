#include "worker/trainer/parallel/clip_attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "worker/trainer/parallel/clip_layout.h"
#include "worker/trainer/parallel/ulysses.h"

namespace evenstep::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor ToTensor(const std::vector<int64_t>& values) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())},
                                at::TensorOptions().dtype(at::kLong));
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<int64_t>());
  return tensor;
}

at::Tensor Inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    inverse[order[i]] = static_cast<int64_t>(i);
  }
  return ToTensor(inverse);
}

ClipExchange MakeExchange(ClipShapes shapes, int degree, int rank) {
  const ClipSwitch plan = MakeClipSwitch(shapes, degree, rank);
  return {ToTensor(plan.send_order), Inverse(plan.send_order),
          ToTensor(plan.recv_order), Inverse(plan.recv_order),
          plan.send_tokens,          plan.recv_tokens};
}

at::Tensor Reorder(const at::Tensor& x, const at::Tensor& order) {
  return at::index_select(x, 0, order.to(x.device()));
}

at::Tensor ByPatch(const at::Tensor& x, const ClipExchange& exchange,
                   RankSubset* ranks) {
  const at::Tensor received =
      ranks->AllToAllRows(Reorder(x, exchange.send_order), exchange.send_tokens,
                          exchange.recv_tokens);
  return Reorder(received, exchange.recv_order);
}

at::Tensor ByFrame(const at::Tensor& x, const ClipExchange& exchange,
                   RankSubset* ranks) {
  const at::Tensor received =
      ranks->AllToAllRows(Reorder(x, exchange.recv_inverse),
                          exchange.recv_tokens, exchange.send_tokens);
  return Reorder(received, exchange.send_inverse);
}

// From one order to the other; the gradient goes the other way.
class ArrangeFunction : public torch::autograd::Function<ArrangeFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_TW,
                            const ClipExchange* exchange, RankSubset* ranks,
                            ClipAxis axis) {
    ctx->saved_data["exchange"] = reinterpret_cast<int64_t>(exchange);
    ctx->saved_data["ranks"] = reinterpret_cast<int64_t>(ranks);
    ctx->saved_data["axis"] = static_cast<int64_t>(axis);
    return axis == ClipAxis::kTime ? ByPatch(x_TW, *exchange, ranks)
                                   : ByFrame(x_TW, *exchange, ranks);
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const auto* exchange = reinterpret_cast<const ClipExchange*>(
        ctx->saved_data["exchange"].toInt());
    auto* ranks =
        reinterpret_cast<RankSubset*>(ctx->saved_data["ranks"].toInt());
    const auto axis = static_cast<ClipAxis>(ctx->saved_data["axis"].toInt());
    return {axis == ClipAxis::kTime ? ByFrame(gradients[0], *exchange, ranks)
                                    : ByPatch(gradients[0], *exchange, ranks),
            at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// The sequences of either axis in what `rank` of `degree` holds.
std::vector<SequenceBatch> FramesOf(ClipShapes shapes, int degree, int rank) {
  std::vector<SequenceBatch> batches;
  for (const data::ClipShape& shape : shapes) {
    batches.push_back(
        {RangeOf(shape.frames, degree, rank).size(), shape.patches()});
  }
  return batches;
}

std::vector<SequenceBatch> PatchesOf(ClipShapes shapes, int degree, int rank) {
  std::vector<SequenceBatch> batches;
  for (const data::ClipShape& shape : shapes) {
    batches.push_back(
        {RangeOf(shape.patches(), degree, rank).size(), shape.frames});
  }
  return batches;
}

}  // namespace

GroupClipAttention::GroupClipAttention(Communicator* group,
                                       const PackedShard* shard)
    : switches_(shard->ulysses_degree == 1),
      ranks_(group, /*first=*/0, /*stride=*/1, group->size()) {
  const ClipShapes shapes = *shard->clips->shapes;
  const int degree = switches_ ? group->size() : 1;
  const int rank = switches_ ? group->rank() : 0;
  frames_ = FramesOf(shapes, degree, rank);
  patches_ = PatchesOf(shapes, degree, rank);
  exchange_ = MakeExchange(shapes, degree, rank);
}

at::Tensor GroupClipAttention::Arrange(const at::Tensor& x_TW, ClipAxis axis) {
  if (!switches_) return x_TW;
  return ArrangeFunction::apply(x_TW, &exchange_, &ranks_, axis);
}

at::Tensor GroupClipAttention::Attend(const at::Tensor& q_THD,
                                      const at::Tensor& k_THD,
                                      const at::Tensor& v_THD, ClipAxis axis) {
  if (!switches_) return AttendInRuns(q_THD, k_THD, v_THD, axis);
  return BatchedAttention(q_THD, k_THD, v_THD,
                          axis == ClipAxis::kSpace ? frames_ : patches_);
}

at::Tensor GroupClipAttention::AttendInRuns(const at::Tensor& q_THD,
                                            const at::Tensor& k_THD,
                                            const at::Tensor& v_THD,
                                            ClipAxis axis) {
  absl::Status fits = CheckHeads(q_THD.size(1), k_THD.size(1), ranks_.size(),
                                 IrregularHeads::kRefuse);
  if (!fits.ok()) ranks_.Fail(std::move(fits));
  const OwnHeads own = ScatterHeads(q_THD, k_THD, v_THD, &ranks_);
  if (axis == ClipAxis::kSpace) {
    return GatherHeads(BatchedAttention(own.q, own.k, own.v, frames_), &ranks_);
  }
  // One rank's tokens are sent to itself: only their order changes.
  const int64_t tokens = exchange_.send_order.size(0);
  const auto by_patch = [&](const at::Tensor& x) {
    return Reorder(Reorder(x.narrow(0, 0, tokens), exchange_.send_order),
                   exchange_.recv_order);
  };
  const at::Tensor out = BatchedAttention(by_patch(own.q), by_patch(own.k),
                                          by_patch(own.v), patches_);
  const at::Tensor by_frame =
      Reorder(Reorder(out, exchange_.recv_inverse), exchange_.send_inverse);
  const int64_t padding = own.q.size(0) - tokens;
  return GatherHeads(
      padding == 0 ? by_frame
                   : at::constant_pad_nd(by_frame, {0, 0, 0, 0, 0, padding}),
      &ranks_);
}

at::Tensor GroupClipAttention::Attend(const at::Tensor& /*q_THD*/,
                                      const at::Tensor& /*k_TGD*/,
                                      const at::Tensor& /*v_TGD*/,
                                      AttentionMask /*mask*/) {
  ranks_.Fail(absl::InternalError("a text model was given clips"));
}

}  // namespace evenstep::trainer
