// Modulation by torch's operators, as on a device and in half precision,
// against the loops that serve the CPU.

#include "worker/trainer/model/modulation.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

namespace evenstep::trainer {
namespace {

// Values that half precision holds exactly.
at::Tensor Values(std::vector<int64_t> sizes, int64_t stride) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return at::arange(count)
      .mul_(stride)
      .remainder_(7)
      .sub_(3)
      .to(at::kFloat)
      .mul_(0.25)
      .reshape(sizes);
}

// Output, and gradients of x, of what modulates, and of what is added.
struct Result {
  at::Tensor out;
  std::vector<at::Tensor> gradients;
};

template <typename Body>
Result Differentiate(at::ScalarType type, const Body& body) {
  std::vector<at::Tensor> leaves = {Values({6, 4}, 3), Values({6, 4}, 2),
                                    Values({2, 4}, 5), Values({2, 4}, 4)};
  for (at::Tensor& leaf : leaves) {
    leaf = leaf.to(type).requires_grad_(true);
  }
  const at::Tensor condition_T = at::arange(6).remainder_(2).to(at::kLong);
  Result result;
  result.out = body(leaves, condition_T);
  at::mul(result.out, Values({6, 4}, 6).to(type)).sum().backward();
  for (const at::Tensor& leaf : leaves) {
    if (leaf.grad().defined()) result.gradients.push_back(leaf.grad());
  }
  return result;
}

void ExpectSame(const Result& half, const Result& exact) {
  EXPECT_TRUE(at::allclose(half.out.to(at::kFloat), exact.out, 1e-2, 1e-2));
  ASSERT_EQ(half.gradients.size(), exact.gradients.size());
  ASSERT_EQ(exact.gradients.size(), 3u);
  for (size_t i = 0; i < exact.gradients.size(); ++i) {
    EXPECT_TRUE(at::allclose(half.gradients[i].to(at::kFloat),
                             exact.gradients[i], 1e-2, 1e-2))
        << i;
  }
}

TEST(ModulationTest, HalfPrecisionFollowsTheLoops) {
  const auto modulate = [](const std::vector<at::Tensor>& leaves,
                           const at::Tensor& condition_T) {
    return Modulate(leaves[0], leaves[2], leaves[3], condition_T);
  };
  ExpectSame(Differentiate(at::kBFloat16, modulate),
             Differentiate(at::kFloat, modulate));
  const auto add = [](const std::vector<at::Tensor>& leaves,
                      const at::Tensor& condition_T) {
    return GatedAdd(leaves[0], leaves[1], leaves[2], condition_T);
  };
  ExpectSame(Differentiate(at::kBFloat16, add), Differentiate(at::kFloat, add));
}

}  // namespace
}  // namespace evenstep::trainer
