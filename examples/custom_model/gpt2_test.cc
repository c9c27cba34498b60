// The model against one process that works a document at a time, with torch's
// plain operations and an explicit softmax: whatever the groups, the modes of
// sequence parallelism, the packing and the recompute, loss, gradients and
// updated parameters are equal. float64, 1e-10.

#include "gpt2.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/trainer/testing/expect_parity.h"

namespace custom_model {
namespace {

using evenstep::data::SampleTokens;
using evenstep::trainer::AttentionMask;
using evenstep::trainer::ModelRequest;
using evenstep::trainer::Sharding;
using evenstep::trainer::testing::BackEnd;
using evenstep::trainer::testing::ExpectParity;
using evenstep::trainer::testing::MustRun;
using evenstep::trainer::testing::ParityOptions;
using evenstep::trainer::testing::TestMicroBatch;
using evenstep::trainer::testing::Weights;

ModelRequest Small() {
  ModelRequest request;
  request.layers = 3;
  request.width = 16;
  request.heads = request.kv_heads = 4;
  request.vocab = 13;
  request.max_length = 64;
  request.seed = 7;
  request.dtype = at::kDouble;
  return request;
}

at::Tensor Normed(const Weights& weights, const std::string& name,
                  const at::Tensor& x) {
  const at::Tensor centred = x - x.mean(-1, true);
  const at::Tensor scale = at::rsqrt(centred.pow(2).mean(-1, true) + 1e-5);
  return centred * scale * weights.at(name + ".weight") +
         weights.at(name + ".bias");
}

// x [L, W].
at::Tensor Attention(const ModelRequest& request, const Weights& weights,
                     const std::string& layer, const at::Tensor& x) {
  const int64_t length = x.size(0);
  const int64_t dim = request.width / request.heads;
  const at::Tensor qkv = x.matmul(weights.at(layer + "qkv.weight").t())
                             .view({length, 3, request.heads, dim});
  at::Tensor scores =
      at::einsum("qhd,khd->hqk", {qkv.select(1, 0), qkv.select(1, 1)}) /
      std::sqrt(static_cast<double>(dim));
  if (request.attention == AttentionMask::kCausal) {
    scores = scores.masked_fill(at::ones({length, length}, at::kBool).triu(1),
                                -INFINITY);
  }
  const at::Tensor out =
      at::einsum("hqk,khd->qhd", {at::softmax(scores, -1), qkv.select(1, 2)});
  return out.reshape({length, request.width})
      .matmul(weights.at(layer + "out.weight").t());
}

// The sum of the losses of one document.
at::Tensor DocumentLoss(const ModelRequest& request, const Weights& weights,
                        const SampleTokens& sample) {
  const auto length = static_cast<int64_t>(sample.tokens.size());
  const at::Tensor tokens =
      at::tensor(at::ArrayRef<int32_t>(sample.tokens)).to(at::kLong);
  at::Tensor x = weights.at("tokens.weight").index_select(0, tokens) +
                 weights.at("positions.weight").slice(0, 0, length);
  for (int i = 0; i < request.layers; ++i) {
    const std::string layer = absl::StrCat("layers.", i, ".");
    x = x + Attention(request, weights, layer,
                      Normed(weights, layer + "attention_norm", x));
    const at::Tensor up = Normed(weights, layer + "mlp_norm", x)
                              .matmul(weights.at(layer + "up.weight").t());
    const at::Tensor gelu = up * 0.5 * (1 + at::erf(up / std::sqrt(2.0)));
    x = x + gelu.matmul(weights.at(layer + "down.weight").t());
  }
  const at::Tensor log_probability = at::log_softmax(
      Normed(weights, "final_norm", x).matmul(weights.at("tokens.weight").t()),
      -1);
  at::Tensor loss = at::zeros({}, x.options());
  for (int64_t i = 0; i < length; ++i) {
    if (sample.targets[i] == evenstep::data::kIgnoredTarget) continue;
    loss = loss - log_probability[i][sample.targets[i]];
  }
  return loss;
}

ParityOptions OneStep(int world, std::vector<TestMicroBatch> micro_batches,
                      const ModelRequest& request = Small()) {
  ParityOptions options;
  options.own.make = [request] { return MakeGpt2(request); };
  options.own.loss = [request](const Weights& weights,
                               const SampleTokens& sample) {
    return DocumentLoss(request, weights, sample);
  };
  options.config.vocab = request.vocab;
  options.world = world;
  options.steps = {std::move(micro_batches)};
  return options;
}

TEST(Gpt2Test, PackedDocumentsNeverSeeEachOther) {
  ExpectParity(OneStep(1, {{0, 1, {9, 1, 30, 2}}, {0, 1, {17}}}));
}

TEST(Gpt2Test, EveryDegreeOfUlyssesGivesTheSame) {
  for (const int degree : {2, 4}) {
    SCOPED_TRACE(degree);
    ExpectParity(OneStep(
        4,
        {{0, degree, {33, 1, 7}}, {4 - degree, degree, {50}}, {1, 1, {2, 3}}}));
  }
}

// Gathered keys and values at a degree that heads do not divide by, and both
// ways together.
TEST(Gpt2Test, EveryModeOfSequenceParallelismGivesTheSame) {
  TestMicroBatch gathered = {0, 3, {41, 2, 10}};
  gathered.ulysses_degree = 1;
  TestMicroBatch both = {0, 8, {61, 5}};
  both.ulysses_degree = 4;
  ExpectParity(OneStep(8, {gathered, both, {6, 2, {12}}}));
}

TEST(Gpt2Test, EveryRecomputeCountGivesTheSame) {
  for (int layers = 0; layers <= 3; ++layers) {
    SCOPED_TRACE(layers);
    ExpectParity(OneStep(2, {{0, 2, {20, 3}, layers}, {1, 1, {8}, layers}}));
  }
}

TEST(Gpt2Test, AnEncoderSeesAllOfItsDocument) {
  ModelRequest encoder = Small();
  encoder.attention = AttentionMask::kFull;
  ExpectParity(OneStep(2, {{0, 2, {20, 3}}, {0, 1, {8}}}, encoder));
}

TEST(Gpt2Test, ParametersAgreeAfterTenStepsWithSplitStates) {
  ParityOptions options = OneStep(4, {});
  options.steps.clear();
  for (int64_t step = 0; step < 10; ++step) {
    options.steps.push_back(
        {{0, 4, {20 + step, 2}, 1}, {0, 2, {9, step + 1}}, {3, 1, {5}, 2}});
  }
  for (const Sharding sharding : {Sharding::kNone, Sharding::kZero1}) {
    options.sharding = sharding;
    ExpectParity(options);
  }
}

TEST(Gpt2Test, GlooGivesTheSame) {
  std::signal(SIGPIPE, SIG_IGN);
  ParityOptions options = OneStep(2, {{0, 2, {21, 4}, 1}, {0, 1, {6}}});
  options.back_end = BackEnd::kGloo;
  ExpectParity(options);
}

TEST(Gpt2Test, BFloat16StaysWithinRounding) {
  ModelRequest half = Small();
  half.dtype = at::kBFloat16;
  const auto report =
      MustRun(OneStep(2, {{0, 2, {21, 4}, 1}, {0, 1, {6}}}, half));
  EXPECT_LE(report.loss, 1e-2);
  EXPECT_LE(report.gradient, 0.1);
}

// That the comparison bites: an oracle without learned positions is another
// model.
TEST(Gpt2Test, AnotherModelIsNotTheSame) {
  ParityOptions options = OneStep(1, {{0, 1, {9, 4}}});
  options.own.loss = [](const Weights& weights, const SampleTokens& sample) {
    Weights changed = weights;
    changed["positions.weight"] = weights.at("positions.weight") * 0.5;
    return DocumentLoss(Small(), changed, sample);
  };
  EXPECT_GT(MustRun(options).gradient, 1e-3);
}

TEST(Gpt2Test, WhatItCannotBeIsRefused) {
  ModelRequest request = Small();
  request.kv_heads = 2;
  EXPECT_THAT(std::string(MakeGpt2(request).status().message()),
              ::testing::HasSubstr("2 and 4"));
}

}  // namespace
}  // namespace custom_model
