#include "worker/trainer/model/varlen_attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numeric>
#include <utility>

#include "worker/trainer/model/attention_block.h"
#include "worker/trainer/model/device_kernels.h"

namespace evenstep::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// [S, N, D], where rows after `used` are zero and others are not yet written.
at::Tensor EmptyWithZeroTail(const at::Tensor& like_SND, int64_t used) {
  at::Tensor result = at::empty(like_SND.sizes(), like_SND.options());
  if (used < result.size(0)) {
    result.narrow(0, used, result.size(0) - used).zero_();
  }
  return result;
}

int64_t Total(const std::vector<int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

class VarlenAttentionFunction
    : public torch::autograd::Function<VarlenAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q_SHD,
                            const at::Tensor& k_SGD, const at::Tensor& v_SGD,
                            const std::vector<int64_t>& lengths,
                            AttentionMask mask) {
    at::Tensor out_SHD = EmptyWithZeroTail(q_SHD, Total(lengths));
    variable_list saved = {q_SHD, k_SGD, v_SGD, out_SHD};
    int64_t start = 0;
    for (int64_t length : lengths) {
      AttentionBlock block = AttendBlock(q_SHD.narrow(0, start, length),
                                         k_SGD.narrow(0, start, length),
                                         v_SGD.narrow(0, start, length), mask);
      out_SHD.narrow(0, start, length).copy_(block.out_LHD);
      saved.push_back(std::move(block.lse_1HL));
      start += length;
    }
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["lengths"] = lengths;
    ctx->saved_data["mask"] = static_cast<int64_t>(mask);
    return out_SHD;
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& gradients) {
    const std::vector<int64_t> lengths =
        ctx->saved_data["lengths"].toIntVector();
    const auto mask =
        static_cast<AttentionMask>(ctx->saved_data["mask"].toInt());
    const variable_list saved = ctx->get_saved_variables();
    const int64_t total = Total(lengths);
    at::Tensor dq_SHD = EmptyWithZeroTail(saved[0], total);
    at::Tensor dk_SGD = EmptyWithZeroTail(saved[1], total);
    at::Tensor dv_SGD = EmptyWithZeroTail(saved[2], total);
    int64_t start = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      const auto document = [start, length = lengths[i]](const at::Tensor& x) {
        return x.narrow(0, start, length);
      };
      const AttentionBlockGradient gradient = AttendBlockBackward(
          document(gradients[0]), document(saved[0]), document(saved[1]),
          document(saved[2]), {document(saved[3]), saved[4 + i]}, mask);
      document(dq_SHD).copy_(gradient.dq_LHD);
      document(dk_SGD).copy_(gradient.dk_SGD);
      document(dv_SGD).copy_(gradient.dv_SGD);
      start += lengths[i];
    }
    return {dq_SHD, dk_SGD, dv_SGD, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor VarlenAttention(const at::Tensor& q_SHD, const at::Tensor& k_SGD,
                           const at::Tensor& v_SGD,
                           const std::vector<int64_t>& lengths,
                           AttentionMask mask) {
  if (HasFlashAttention(q_SHD)) {
    return FlashVarlenAttention(
        q_SHD, k_SGD, v_SGD, MakeDocumentBounds(lengths, q_SHD.device()), mask);
  }
  return VarlenAttentionFunction::apply(q_SHD, k_SGD, v_SGD, lengths, mask);
}

}  // namespace evenstep::trainer
