#include "worker/trainer/model/batched_attention.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>

// Shapes beside those of the header: N sequences of L tokens.

namespace evenstep::trainer {
namespace {

// [N L, H, D] to [N, H, L, D].
at::Tensor HeadsFirst(const at::Tensor& x_THD, const SequenceBatch& batch) {
  return x_THD.unflatten(0, {batch.count, batch.length}).transpose(1, 2);
}

}  // namespace

at::Tensor BatchedAttention(const at::Tensor& q_THD, const at::Tensor& k_THD,
                            const at::Tensor& v_THD,
                            const std::vector<SequenceBatch>& batches) {
  std::vector<int64_t> sizes;
  int64_t padding = q_THD.size(0);
  for (const SequenceBatch& batch : batches) {
    sizes.push_back(batch.tokens());
    padding -= batch.tokens();
  }
  sizes.push_back(padding);
  // Repeated narrow costs more in backward.
  const std::vector<at::Tensor> q = q_THD.split_with_sizes(sizes);
  const std::vector<at::Tensor> k = k_THD.split_with_sizes(sizes);
  const std::vector<at::Tensor> v = v_THD.split_with_sizes(sizes);
  std::vector<at::Tensor> out;
  for (size_t i = 0; i < batches.size(); ++i) {
    if (batches[i].tokens() == 0) continue;
    const at::Tensor out_NHLD = at::scaled_dot_product_attention(
        HeadsFirst(q[i], batches[i]), HeadsFirst(k[i], batches[i]),
        HeadsFirst(v[i], batches[i]));
    out.push_back(out_NHLD.transpose(1, 2).flatten(0, 1));
  }
  if (padding > 0) out.push_back(at::zeros(q.back().sizes(), q_THD.options()));
  return out.size() == 1 ? out[0] : at::cat(out);
}

}  // namespace evenstep::trainer
