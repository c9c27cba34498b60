#include "worker/trainer/model/decoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "evenstep/trainer/initial_values.h"
#include "evenstep/trainer/kernels.h"
#include "worker/trainer/model/varlen_attention.h"

namespace evenstep::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

DecoderConfig Config() {
  DecoderConfig config;
  config.layers = 1;
  config.width = 8;
  config.heads = 2;
  config.kv_heads = 1;
  config.vocab = 5;
  config.seed = 3;
  config.dtype = at::kDouble;
  return config;
}

TEST(DecoderTest, ParametersHaveTheNamesAndShapesOfLlama) {
  const auto model = MakeDecoder(Config());
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<std::string> names;
  for (const NamedParameter& p : (*model)->parameters()) {
    std::string text = p.name;
    for (int64_t size : p.value.sizes()) absl::StrAppend(&text, " ", size);
    names.push_back(text);
    EXPECT_TRUE(p.value.is_leaf() && p.value.requires_grad());
  }
  const std::string layer = "model.layers.0.";
  EXPECT_THAT(names, ElementsAre("model.embed_tokens.weight 5 8",
                                 layer + "input_layernorm.weight 8",
                                 layer + "self_attn.q_proj.weight 8 8",
                                 layer + "self_attn.k_proj.weight 4 8",
                                 layer + "self_attn.v_proj.weight 4 8",
                                 layer + "self_attn.o_proj.weight 8 8",
                                 layer + "post_attention_layernorm.weight 8",
                                 layer + "mlp.gate_proj.weight 32 8",
                                 layer + "mlp.up_proj.weight 32 8",
                                 layer + "mlp.down_proj.weight 8 32",
                                 "model.norm.weight 8", "lm_head.weight 5 8"));
  EXPECT_EQ((*model)->layers().front().count, 1);
}

TEST(DecoderTest, InitialValuesDependOnSeedAndNameAlone) {
  DecoderConfig config = Config();
  const auto one = MakeDecoder(config);
  config.dtype = at::kFloat;
  config.layers = 3;
  const auto deeper = MakeDecoder(config);
  config.seed = 4;
  const auto other = MakeDecoder(config);
  const double value =
      (*one)->parameters()[2].value.const_data_ptr<double>()[5];
  const float same =
      (*deeper)->parameters()[2].value.const_data_ptr<float>()[5];
  EXPECT_EQ(static_cast<float>(value), same);
  EXPECT_NE(same, (*other)->parameters()[2].value.const_data_ptr<float>()[5]);
}

TEST(DecoderTest, InitialValuesAreNormal) {
  double sum = 0;
  double square = 0;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    const double x = NormalAt(1, "weight", i);
    sum += x;
    square += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.03);
  EXPECT_NEAR(square / kCount, 1, 0.04);
}

TEST(DecoderTest, SizesThatDoNotDivideAreRefusedWithTheNumbers) {
  DecoderConfig config = Config();
  config.heads = 3;
  EXPECT_THAT(std::string(ValidateDecoderConfig(config).message()),
              HasSubstr("width 8 over 3 heads"));
  config = Config();
  config.heads = 4;
  config.kv_heads = 3;
  EXPECT_THAT(std::string(ValidateDecoderConfig(config).message()),
              HasSubstr("4 heads are no multiple of 3 kv_heads"));
  config = Config();
  config.layers = 0;
  EXPECT_FALSE(MakeDecoder(config).ok());
  config = Config();
  config.dtype = at::kHalf;
  EXPECT_FALSE(MakeDecoder(config).ok());
}

TEST(DecoderTest, TheMlpIsEightThirdsOfTheWidth) {
  DecoderConfig config;
  config.width = 128;
  EXPECT_EQ(MlpWidth(config), 352);
  config.mlp_width = 100;
  EXPECT_EQ(MlpWidth(config), 100);
}

using Function = std::function<at::Tensor(const at::Tensor&)>;

// Largest difference of the gradient of sum(f(x) * w) from central differences.
double GradientError(const Function& f, at::Tensor x) {
  x.requires_grad_(true);
  const at::Tensor y = f(x);
  const at::Tensor weights = at::rand(y.sizes(), y.options());
  const at::Tensor gradient =
      torch::autograd::grad({y}, {x}, {weights})[0].contiguous();
  const auto value = [&] { return f(x.detach()).mul(weights).sum(); };
  double* data = x.mutable_data_ptr<double>();
  double largest = 0;
  constexpr double kStep = 1e-6;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double before = data[i];
    data[i] = before + kStep;
    const double above = value().item().toDouble();
    data[i] = before - kStep;
    const double below = value().item().toDouble();
    data[i] = before;
    largest = std::max(largest, std::abs((above - below) / (2 * kStep) -
                                         gradient.const_data_ptr<double>()[i]));
  }
  return largest;
}

TEST(KernelsTest, NormHasUnitMeanSquareAndTheRightGradient) {
  const at::Tensor weight = at::rand({19}, at::kDouble);
  const at::Tensor x = at::rand({3, 19}, at::kDouble);
  const at::Tensor out = RmsNorm(x, at::rand({19}, at::kDouble) * 0 + 1, 0.0);
  EXPECT_NEAR(out.pow(2).mean().item().toDouble(), 1.0, 1e-12);
  EXPECT_LT(
      GradientError(
          [&](const at::Tensor& v) { return RmsNorm(v, weight, 1e-5); }, x),
      1e-7);
  EXPECT_LT(
      GradientError(
          [&](const at::Tensor& w) { return RmsNorm(x.detach(), w, 1e-5); },
          weight),
      1e-7);
}

TEST(KernelsTest, AnEmbeddingHasTheRightGradient) {
  const at::Tensor tokens = at::tensor({2, 0, 2}, at::kLong);
  EXPECT_LT(GradientError([&](const at::Tensor& w) { return Embed(w, tokens); },
                          at::rand({4, 3}, at::kDouble)),
            1e-7);
}

// One token 1024 times, with gradients of 1 and 1/512: a sum in bfloat16 stops
// growing at 256.
TEST(KernelsTest, GradientsOfAFrequentTokenAddUpInFloat32) {
  at::Tensor weight = at::zeros({2, 1}, at::kBFloat16).requires_grad_(true);
  weight.set_grad_dtype(at::kFloat);
  weight.mutable_grad() = at::zeros({2, 1}, at::kFloat);
  const at::Tensor tokens = at::ones({1024}, at::kLong);
  const at::Tensor gradient = at::ones({1024, 1}, at::kBFloat16);
  gradient.narrow(0, 512, 512).fill_(1.0 / 512);
  torch::autograd::backward({Embed(weight, tokens)}, {gradient});
  EXPECT_EQ(weight.grad()[1].item().toDouble(), 513.0);
}

TEST(KernelsTest, RotationKeepsLengthsAndHasTheRightGradient) {
  const at::Tensor positions = at::tensor({0, 1, 2, 0}, at::kLong);
  const RotaryTable table = MakeRotaryTable(positions, 6, 10000.0, at::kDouble);
  const at::Tensor x = at::rand({4, 2, 6}, at::kDouble);
  const at::Tensor out = Rotate(x, table);
  EXPECT_NEAR(out.norm().item().toDouble(), x.norm().item().toDouble(), 1e-12);
  EXPECT_EQ((out[0] - x[0]).abs().max().item().toDouble(), 0);
  EXPECT_EQ((out[3] - x[3]).abs().max().item().toDouble(), 0);
  EXPECT_LT(
      GradientError([&](const at::Tensor& v) { return Rotate(v, table); }, x),
      1e-7);
}

TEST(KernelsTest, AttentionHasTheRightGradientAndNoneForPadding) {
  const at::Tensor k = at::rand({7, 1, 4}, at::kDouble);
  const at::Tensor v = at::rand({7, 1, 4}, at::kDouble);
  at::Tensor q = at::rand({7, 2, 4}, at::kDouble);
  const Function attend = [&](const at::Tensor& x) {
    return VarlenAttention(x, k, v, {3, 1, 2}, AttentionMask::kCausal);
  };
  EXPECT_LT(GradientError(attend, q), 1e-7);
  EXPECT_EQ(attend(q)[6].abs().max().item().toDouble(), 0);
  const at::Tensor fixed = q.detach();
  EXPECT_LT(GradientError(
                [&](const at::Tensor& x) {
                  return VarlenAttention(fixed, x, v, {3, 1, 2},
                                         AttentionMask::kCausal);
                },
                k.clone()),
            1e-7);
}

}  // namespace
}  // namespace evenstep::trainer
