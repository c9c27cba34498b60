// Parts of the decoder on the GPU in bfloat16 and float64 against the loops of
// the CPU, and flash attention against attention in float32.

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/device/checks.h"
#include "worker/trainer/model/device_kernels.h"
#include "worker/trainer/model/varlen_attention.h"

namespace evenstep::trainer {
namespace {

at::Tensor Random(at::IntArrayRef sizes) {
  return at::rand(sizes, at::kDouble).sub_(0.5);
}

// Output and gradients of `compute` over inputs on the GPU and on the CPU.
template <typename Compute>
double DifferenceOfDevices(const Compute& compute,
                           const std::vector<at::Tensor>& inputs) {
  std::vector<std::vector<at::Tensor>> results;
  for (const at::Device device : {Gpu(), at::Device(at::kCPU)}) {
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& input : inputs) {
      leaves.push_back(input.to(device).detach().requires_grad_(true));
    }
    const at::Tensor out = compute(leaves);
    const at::Tensor weight =
        at::arange(out.numel(), at::kDouble).sin_().view(out.sizes());
    auto all = torch::autograd::grad({out}, leaves,
                                     {weight.to(device, out.scalar_type())});
    all.push_back(out);
    results.push_back(std::move(all));
  }
  double worst = 0;
  for (size_t i = 0; i < results[0].size(); ++i) {
    worst = std::max(worst, RelativeDifference(results[0][i], results[1][i]));
  }
  return worst;
}

struct Attention {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
};

Attention RandomHeads(int64_t tokens, at::ScalarType type) {
  const auto random = [&](int64_t heads) {
    return at::randn({tokens, heads, 64}, at::kFloat)
        .to(Gpu(), type)
        .requires_grad_(true);
  };
  return {random(8), random(2), random(2)};
}

// Attention in float32 over rows [start, start + length), and its gradient for
// ones.
std::vector<at::Tensor> Reference(const Attention& x, int64_t start,
                                  int64_t length, AttentionMask mask) {
  const auto rows = [&](const at::Tensor& t) {
    return t.detach().narrow(0, start, length).to(at::kFloat);
  };
  const AttentionBlock block =
      AttendBlockByOps(rows(x.q), rows(x.k), rows(x.v), mask);
  const AttentionBlockGradient gradient =
      AttendBlockBackwardByOps(at::ones_like(block.out_LHD), rows(x.q),
                               rows(x.k), rows(x.v), block, mask);
  return {block.out_LHD, gradient.dq_LHD, gradient.dk_SGD, gradient.dv_SGD};
}

double Worst(const std::vector<at::Tensor>& actual,
             const std::vector<at::Tensor>& expected) {
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    worst = std::max(worst, RelativeDifference(actual[i], expected[i]));
  }
  return worst;
}

// One document as two chunks of queries, as KV-gather computes it.
std::vector<at::Tensor> AttendInTwoChunks(const Attention& x, int64_t cut) {
  const int64_t length = x.q.size(0);
  const auto rows = [](const at::Tensor& t, int64_t begin, int64_t end) {
    return t.detach().narrow(0, begin, end - begin);
  };
  const at::Tensor q1 = rows(x.q, 0, cut);
  const at::Tensor q2 = rows(x.q, cut, length);
  const auto keys = [&](int64_t begin, int64_t end) {
    return std::pair{rows(x.k, begin, end), rows(x.v, begin, end)};
  };
  const auto [k1, v1] = keys(0, cut);
  const auto [k2, v2] = keys(cut, length);
  const AttentionBlock first = AttendBlock(q1, k1, v1, AttentionMask::kCausal);
  const AttentionBlock second =
      MergeBlocks(AttendBlock(q2, k1, v1, AttentionMask::kFull),
                  AttendBlock(q2, k2, v2, AttentionMask::kCausal));
  const auto back = [](const at::Tensor& q,
                       const std::pair<at::Tensor, at::Tensor>& kv,
                       const AttentionBlock& whole, AttentionMask mask) {
    return AttendBlockBackward(at::ones_like(whole.out_LHD), q, kv.first,
                               kv.second, whole, mask);
  };
  const auto a = back(q1, {k1, v1}, first, AttentionMask::kCausal);
  const auto b = back(q2, {k1, v1}, second, AttentionMask::kFull);
  const auto c = back(q2, {k2, v2}, second, AttentionMask::kCausal);
  return {at::cat({first.out_LHD, second.out_LHD}),
          at::cat({a.dq_LHD, b.dq_LHD + c.dq_LHD}),
          at::cat({a.dk_SGD + b.dk_SGD, c.dk_SGD}),
          at::cat({a.dv_SGD + b.dv_SGD, c.dv_SGD})};
}

}  // namespace

absl::Status NormRotationAndEmbedding() {
  const at::Tensor positions = at::arange(300, at::kLong);
  const at::Tensor tokens = positions.remainder(7);
  double exact = 0;
  double rounded = 0;
  for (const at::ScalarType type : {at::kDouble, at::kBFloat16}) {
    const auto random = [type](at::IntArrayRef sizes) {
      return Random(sizes).to(type);
    };
    const double norm = DifferenceOfDevices(
        [](const auto& x) { return RmsNorm(x[0], x[1], 1e-5); },
        {random({300, 96}), random({96})});
    const double rotation = DifferenceOfDevices(
        [&](const auto& x) {
          return Rotate(x[0], MakeRotaryTable(positions.to(x[0].device()), 32,
                                              10000.0, type));
        },
        {random({300, 3, 32})});
    const double embedding = DifferenceOfDevices(
        [&](const auto& x) { return Embed(x[0], tokens.to(x[0].device())); },
        {random({7, 96})});
    absl::PrintF("  %-8s norm %.1e, rotation %.1e, embedding %.1e\n",
                 type == at::kDouble ? "float64" : "bfloat16", norm, rotation,
                 embedding);
    (type == at::kDouble ? exact : rounded) =
        std::max({norm, rotation, embedding});
  }
  return Expect(exact < 1e-12 && rounded < 2e-2,
                "a part of the decoder differs between CPU and GPU");
}

absl::Status VarlenFlashAttention() {
  const std::vector<int64_t> lengths = {300, 1, 1000, 2};
  double worst = 0;
  for (const AttentionMask mask :
       {AttentionMask::kCausal, AttentionMask::kFull}) {
    const Attention x = RandomHeads(1310, at::kBFloat16);  // 7 are padding
    if (!HasFlashAttention(x.q)) {
      return absl::InternalError("flash attention is not taken");
    }
    const at::Tensor out = VarlenAttention(x.q, x.k, x.v, lengths, mask);
    std::vector<at::Tensor> all = {out};
    for (auto& gradient : torch::autograd::grad({out.sum()}, {x.q, x.k, x.v})) {
      all.push_back(std::move(gradient));
    }
    int64_t start = 0;
    for (const int64_t length : lengths) {
      std::vector<at::Tensor> document;
      for (const at::Tensor& t : all) {
        document.push_back(t.narrow(0, start, length));
      }
      const auto expected = Reference(x, start, length, mask);
      // Of a document of one token, queries and keys have no gradient.
      if (length == 1) document.resize(1);
      worst = std::max(worst, Worst(document, expected));
      start += length;
    }
    for (const at::Tensor& t : all) {
      worst = std::max(worst, t.narrow(0, start, 1310 - start)
                                  .abs()
                                  .max()
                                  .to(at::kDouble)
                                  .item<double>());
    }
  }
  absl::PrintF("  bfloat16 against float32, worst relative difference %.2e\n",
               worst);
  return Expect(worst < 3e-2, "flash attention differs from float32 by 3e-2");
}

absl::Status FlashAttentionInBlocks() {
  const Attention x = RandomHeads(1400, at::kBFloat16);
  const auto whole = Reference(x, 0, 1400, AttentionMask::kCausal);
  double worst = 0;
  for (const int64_t cut : {1, 500, 1399}) {
    worst = std::max(worst, Worst(AttendInTwoChunks(x, cut), whole));
  }
  absl::PrintF("  bfloat16 against float32, worst relative difference %.2e\n",
               worst);
  return Expect(worst < 3e-2, "attention in blocks differs by 3e-2");
}

}  // namespace evenstep::trainer
