#include "worker/trainer/parallel/gather_attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "worker/trainer/model/attention_block.h"

// Shapes: P rows of a part, R real tokens of all documents, H query heads, G
// key and value heads, D dimension of a head, C parts.

namespace evenstep::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Keys [begin, end) of the documents laid end to end, under one mask.
struct KeyBlock {
  int64_t begin;
  int64_t end;
  AttentionMask mask;
};

// Causal: all keys before the chunk, and the chunk itself.
std::vector<KeyBlock> KeysOf(const QueryChunk& chunk, AttentionMask mask) {
  const int64_t start = chunk.document_start;
  if (mask == AttentionMask::kFull) {
    return {{start, start + chunk.document_length, AttentionMask::kFull}};
  }
  std::vector<KeyBlock> blocks;
  if (chunk.begin > 0) {
    blocks.push_back({start, start + chunk.begin, AttentionMask::kFull});
  }
  blocks.push_back(
      {start + chunk.begin, start + chunk.end, AttentionMask::kCausal});
  return blocks;
}

at::Tensor Keys(const at::Tensor& x_RGD, const KeyBlock& block) {
  return x_RGD.narrow(0, block.begin, block.end - block.begin);
}
at::Tensor Queries(const at::Tensor& x_PHD, const QueryChunk& chunk) {
  return x_PHD.narrow(0, chunk.row, chunk.end - chunk.begin);
}

// Keys and values of all documents, padding left out.
std::pair<at::Tensor, at::Tensor> GatherKeysAndValues(const at::Tensor& k_PGD,
                                                      const at::Tensor& v_PGD,
                                                      const GatherPlan& plan,
                                                      RankSubset* ranks) {
  const at::Tensor all_CP2GD =
      ranks->AllGather(at::stack({k_PGD, v_PGD}, /*dim=*/1));
  const at::Tensor real_R2GD =
      at::index_select(all_CP2GD.flatten(0, 1), 0, plan.rows_R);
  return {real_R2GD.select(1, 0), real_R2GD.select(1, 1)};
}

// The way back for gradients of all keys and values: the sum over parts of what
// each has for this part's rows.
std::pair<at::Tensor, at::Tensor> ScatterGradients(const at::Tensor& grad_R2GD,
                                                   const GatherPlan& plan,
                                                   RankSubset* ranks) {
  const int64_t parts = ranks->size();
  const at::Tensor all_2GD = at::zeros(
      {parts * plan.part_tokens, 2, grad_R2GD.size(2), grad_R2GD.size(3)},
      grad_R2GD.options());
  all_2GD.index_copy_(0, plan.rows_R, grad_R2GD);
  const at::Tensor own_P2GD =
      ranks->ReduceScatterSum(all_2GD.unflatten(0, {parts, plan.part_tokens}));
  return {own_P2GD.select(1, 0), own_P2GD.select(1, 1)};
}

const GatherPlan& PlanOf(AutogradContext* ctx) {
  return *reinterpret_cast<const GatherPlan*>(ctx->saved_data["plan"].toInt());
}

class GatherAttentionFunction
    : public torch::autograd::Function<GatherAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q_PHD,
                            const at::Tensor& k_PGD, const at::Tensor& v_PGD,
                            const GatherPlan* plan, RankSubset* ranks,
                            AttentionMask mask) {
    const auto [k_RGD, v_RGD] = GatherKeysAndValues(k_PGD, v_PGD, *plan, ranks);
    at::Tensor out_PHD = at::zeros(q_PHD.sizes(), q_PHD.options());
    variable_list saved = {q_PHD, k_PGD, v_PGD, out_PHD};
    for (const QueryChunk& chunk : plan->chunks) {
      AttentionBlock whole;
      for (const KeyBlock& keys : KeysOf(chunk, mask)) {
        AttentionBlock block =
            AttendBlock(Queries(q_PHD, chunk), Keys(k_RGD, keys),
                        Keys(v_RGD, keys), keys.mask);
        whole = whole.out_LHD.defined() ? MergeBlocks(whole, block)
                                        : std::move(block);
      }
      Queries(out_PHD, chunk).copy_(whole.out_LHD);
      saved.push_back(std::move(whole.lse_1HL));
    }
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["plan"] = reinterpret_cast<int64_t>(plan);
    ctx->saved_data["ranks"] = reinterpret_cast<int64_t>(ranks);
    ctx->saved_data["mask"] = static_cast<int64_t>(mask);
    return out_PHD;
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const GatherPlan& plan = PlanOf(ctx);
    auto* ranks =
        reinterpret_cast<RankSubset*>(ctx->saved_data["ranks"].toInt());
    const auto mask =
        static_cast<AttentionMask>(ctx->saved_data["mask"].toInt());
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& q_PHD = saved[0];
    const auto [k_RGD, v_RGD] =
        GatherKeysAndValues(saved[1], saved[2], plan, ranks);
    // Parts of half precision add up in float32.
    const at::ScalarType type = q_PHD.scalar_type();
    const at::TensorOptions sums =
        q_PHD.options().dtype(type == at::kDouble ? at::kDouble : at::kFloat);
    const at::Tensor dq_PHD = at::zeros(q_PHD.sizes(), sums);
    const at::Tensor dkv_R2GD =
        at::zeros({plan.real_tokens, 2, k_RGD.size(1), k_RGD.size(2)}, sums);
    for (size_t i = 0; i < plan.chunks.size(); ++i) {
      const QueryChunk& chunk = plan.chunks[i];
      const AttentionBlock whole{Queries(saved[3], chunk), saved[4 + i]};
      for (const KeyBlock& keys : KeysOf(chunk, mask)) {
        const AttentionBlockGradient part = AttendBlockBackward(
            Queries(gradients[0], chunk), Queries(q_PHD, chunk),
            Keys(k_RGD, keys), Keys(v_RGD, keys), whole, keys.mask);
        Queries(dq_PHD, chunk).add_(part.dq_LHD);
        Keys(dkv_R2GD, keys).select(1, 0).add_(part.dk_SGD);
        Keys(dkv_R2GD, keys).select(1, 1).add_(part.dv_SGD);
      }
    }
    const auto [dk_PGD, dv_PGD] =
        ScatterGradients(dkv_R2GD.to(type), plan, ranks);
    return {dq_PHD.to(type), dk_PGD,       dv_PGD,
            at::Tensor(),    at::Tensor(), at::Tensor()};
  }
};

}  // namespace

GatherPlan MakeGatherPlan(absl::Span<const int64_t> lengths,
                          const SequenceLayout& layout, int part) {
  GatherPlan plan;
  plan.part_tokens = PaddedTokens(lengths, layout) / layout.gather;
  std::vector<int64_t> starts;
  for (const int64_t length : lengths) {
    starts.push_back(plan.real_tokens);
    plan.real_tokens += length;
  }
  plan.rows_R = at::empty({plan.real_tokens}, at::kLong);
  int64_t* rows = plan.rows_R.mutable_data_ptr<int64_t>();
  for (int p = 0; p < layout.gather; ++p) {
    int64_t row = 0;
    for (const TokenRun& run : RunsOfPart(lengths, layout, p)) {
      const int64_t start = starts[run.document];
      const int64_t length = lengths[run.document];
      const int64_t end = std::min(run.end, length);
      for (int64_t i = run.begin; i < end; ++i) {
        rows[start + i] = p * plan.part_tokens + row + i - run.begin;
      }
      if (p == part && run.begin < end) {
        plan.chunks.push_back({row, run.begin, end, start, length});
      }
      row += run.size();
    }
  }
  return plan;
}

at::Tensor GatherAttention(const at::Tensor& q_PHD, const at::Tensor& k_PGD,
                           const at::Tensor& v_PGD, const GatherPlan* plan,
                           RankSubset* ranks, AttentionMask mask) {
  return GatherAttentionFunction::apply(q_PHD, k_PGD, v_PGD, plan, ranks, mask);
}

}  // namespace evenstep::trainer
