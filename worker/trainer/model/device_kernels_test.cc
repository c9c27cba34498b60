// The operators for other devices against the loops for the host, on the CPU in
// float64. What needs CUDA is checked by tests/device.

#include "worker/trainer/model/device_kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace evenstep::trainer {
namespace {

constexpr double kTolerance = 1e-12;

at::Tensor Random(at::IntArrayRef sizes) {
  return at::rand(sizes, at::kDouble).sub_(0.5);
}

double Difference(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  return at::sub(a, b).abs().max().item<double>();
}

// Output and gradients of two ways to compute the same.
template <typename F, typename G>
void ExpectSame(const F& one, const G& other, std::vector<at::Tensor> inputs) {
  for (at::Tensor& input : inputs) input.requires_grad_(true);
  const at::Tensor a = one();
  const at::Tensor b = other();
  EXPECT_LT(Difference(a, b), kTolerance);
  const at::Tensor weight = Random(a.sizes());
  const auto da = torch::autograd::grad({a}, inputs, {weight});
  const auto db = torch::autograd::grad({b}, inputs, {weight});
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_LT(Difference(da[i], db[i]), kTolerance) << "input " << i;
  }
}

TEST(DeviceKernelsTest, RmsNormIsThatOfTheHost) {
  at::Tensor x = Random({7, 24});
  at::Tensor weight = Random({24});
  ExpectSame([&] { return RmsNorm(x, weight, 1e-5); },
             [&] { return RmsNormByOps(x, weight, 1e-5); }, {x, weight});
}

TEST(DeviceKernelsTest, RotationIsThatOfTheHost) {
  at::Tensor x = Random({6, 3, 8});
  const RotaryTable table =
      MakeRotaryTable(at::arange(6, at::kLong), 8, 10000.0, at::kDouble);
  ExpectSame([&] { return Rotate(x, table); },
             [&] { return RotateByOps(x, table); }, {x});
}

TEST(DeviceKernelsTest, AttentionIsThatOfTheHostForwardAndBackward) {
  for (const AttentionMask mask :
       {AttentionMask::kCausal, AttentionMask::kFull}) {
    const int64_t keys = mask == AttentionMask::kCausal ? 9 : 13;
    const at::Tensor q = Random({9, 6, 8});
    const at::Tensor k = Random({keys, 2, 8});
    const at::Tensor v = Random({keys, 2, 8});
    const at::Tensor dout = Random({9, 6, 8});
    const AttentionBlock host = AttendBlock(q, k, v, mask);
    const AttentionBlock ops = AttendBlockByOps(q, k, v, mask);
    EXPECT_LT(Difference(ops.out_LHD, host.out_LHD), kTolerance);
    EXPECT_LT(Difference(ops.lse_1HL, host.lse_1HL), kTolerance);
    const auto host_gradient = AttendBlockBackward(dout, q, k, v, host, mask);
    const auto ops_gradient =
        AttendBlockBackwardByOps(dout, q, k, v, ops, mask);
    EXPECT_LT(Difference(ops_gradient.dq_LHD, host_gradient.dq_LHD),
              kTolerance);
    EXPECT_LT(Difference(ops_gradient.dk_SGD, host_gradient.dk_SGD),
              kTolerance);
    EXPECT_LT(Difference(ops_gradient.dv_SGD, host_gradient.dv_SGD),
              kTolerance);
  }
}

TEST(DeviceKernelsTest, NotFiniteValuesAreCountedAndSquaresSummed) {
  at::Tensor values = at::ones({5}, at::kFloat);
  EXPECT_EQ(SquareSumByOps(values).item<double>(), 5.0);
  values[1] = std::numeric_limits<float>::infinity();
  values[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(CountNotFiniteByOps(values), 2);
}

// They are looked at in pieces of 16 Mi elements.
TEST(DeviceKernelsTest, NotFiniteValuesAreFoundInEveryPiece) {
  const int64_t count = (int64_t{1} << 24) + 3;
  at::Tensor values = at::zeros({count}, at::kFloat);
  for (const int64_t i : {int64_t{0}, count - 4, count - 3, count - 1}) {
    values[i] = -std::numeric_limits<float>::infinity();
  }
  EXPECT_EQ(CountNotFiniteByOps(values), 4);
}

// Products in the table's float32, one rounding at the end.
TEST(DeviceKernelsTest, RotationOfHalfPrecisionIsRoundedOnce) {
  const RotaryTable table =
      MakeRotaryTable(at::arange(6, at::kLong), 8, 10000.0, at::kBFloat16);
  const at::Tensor x = Random({6, 3, 8}).to(at::kBFloat16);
  EXPECT_EQ(Difference(RotateByOps(x, table).to(at::kFloat),
                       RotateByOps(x.to(at::kFloat), table)
                           .to(at::kBFloat16)
                           .to(at::kFloat)),
            0);
}

TEST(DeviceKernelsTest, AnglesAreThoseOfTheHost) {
  const at::Tensor positions = at::arange(300, at::kLong);
  const RotaryTable host = MakeRotaryTable(positions, 16, 10000.0, at::kDouble);
  const RotaryTable ops =
      MakeRotaryTableByOps(positions, 16, 10000.0, at::kDouble);
  EXPECT_LT(Difference(ops.cos, host.cos), kTolerance);
  EXPECT_LT(Difference(ops.sin, host.sin), kTolerance);
}

TEST(DeviceKernelsTest, BoundsAreTheEndsOfTheDocuments) {
  const DocumentBounds documents = MakeDocumentBounds({3, 1, 7}, at::kCPU);
  EXPECT_TRUE(at::equal(documents.bounds, at::tensor({0, 3, 4, 11}, at::kInt)));
  EXPECT_EQ(documents.used, 11);
  EXPECT_EQ(documents.longest, 7);
}

TEST(DeviceKernelsTest, TheHostHasNoFlashAttention) {
  EXPECT_FALSE(HasFlashAttention(at::zeros({2, 2, 8}, at::kBFloat16)));
}

}  // namespace
}  // namespace evenstep::trainer
