#include "worker/trainer/profile/activation_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "worker/trainer/model/tensor_memory.h"
#include "worker/trainer/testing/measure_memory.h"

namespace evenstep::trainer {
namespace {

using testing::MeasureMemory;
using testing::MemoryCase;
using testing::MemoryUse;

// Before any tensor of the process.
const bool kCounted = [] {
  CountTensorBytes();
  return true;
}();

// layer 100, kept 10, head 50, redone 140, 8 layers: n = 7 holds
// 100 + 70 + 50 = 220 at the head and 210 in the seventh layer; n = 8 holds
// 130 and 220.
TEST(ActivationMemoryTest, PredictsTheLargerOfTwoMoments) {
  const ActivationMemory memory{100, 10, 50, 140};
  EXPECT_EQ(PredictActivationBytes(memory, 8, 0, 2), 2 * 850);
  EXPECT_EQ(PredictActivationBytes(memory, 8, 7, 2), 2 * 220);
  EXPECT_EQ(PredictActivationBytes(memory, 8, 8, 2), 2 * 220);
}

TEST(ActivationMemoryTest, TheFitFindsWhatMadeThePoints) {
  const ActivationMemory truth{100, 10, 50, 140};
  std::vector<MemoryPoint> points;
  for (int n : {0, 4, 8}) {
    points.push_back({64, n, PredictActivationBytes(truth, 8, n, 64)});
  }
  const auto fit = FitActivationMemory(points, 8, 10);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(fit->layer, 100, 1e-6);
  EXPECT_NEAR(fit->head, 50, 1e-6);
  EXPECT_NEAR(fit->redone, 140, 1e-6);
}

TEST(ActivationMemoryTest, TooFewPointsAreRefused) {
  EXPECT_FALSE(FitActivationMemory({}, 8, 10).ok());
  EXPECT_FALSE(FitActivationMemory({{64, 0, 9000}, {64, 8, 900}}, 8, 10).ok());
  EXPECT_FALSE(FitActivationMemory({{64, 0, 9000}, {64, 4, 900}}, 8, 10).ok());
}

DecoderConfig EightLayers() {
  DecoderConfig config;
  config.layers = 8;
  config.width = 64;
  config.heads = 4;
  config.kv_heads = 4;
  config.vocab = 257;
  return config;
}

MemoryUse MustMeasure(const MemoryCase& what) {
  const auto use = MeasureMemory(EightLayers(), what);
  EXPECT_TRUE(use.ok()) << use.status();
  return use.ok() ? *use : MemoryUse{1, 1, 1};
}

// The bound: at most 40 %.
TEST(RecomputeMemoryTest, RecomputeOfAllEightLayersHoldsAtMostTwoFifths) {
  ASSERT_TRUE(kCounted);
  const MemoryUse plain = MustMeasure({1024, 1, 0});
  const MemoryUse recomputed = MustMeasure({1024, 1, 8});
  const double share =
      static_cast<double>(recomputed.bytes) / static_cast<double>(plain.bytes);
  std::printf(
      "recompute of 8 of 8 layers: %.1f %% of the bytes, %.2f times the CPU "
      "seconds\n",
      100 * share, recomputed.cpu_seconds / plain.cpu_seconds);
  EXPECT_LE(share, 0.4);
}

// Each degree's constants come from one length and three numbers of recomputed
// layers; the lengths of the sweep were not seen by the fit.
TEST(RecomputeMemoryTest, PredictionsAreWithinATenthOverASweep) {
  double worst = 0;
  for (int degree : {1, 2, 4}) {
    std::vector<MemoryPoint> points;
    for (int n : {0, 4, 8}) {
      const MemoryUse use = MustMeasure({512, degree, n});
      points.push_back({use.own_tokens, n, use.bytes});
    }
    const auto memory = FitActivationMemory(points, 8, 64 * sizeof(float));
    ASSERT_TRUE(memory.ok()) << memory.status();
    for (int64_t length : {256, 1024}) {
      for (int n : {0, 1, 6, 8}) {
        const MemoryUse use = MustMeasure({length, degree, n});
        const auto predicted = static_cast<double>(
            PredictActivationBytes(*memory, 8, n, use.own_tokens));
        const double error =
            std::abs(predicted / static_cast<double>(use.bytes) - 1);
        EXPECT_LE(error, 0.1)
            << length << " tokens at degree " << degree << ", " << n
            << " layers recomputed: " << predicted << " against " << use.bytes;
        worst = std::max(worst, error);
      }
    }
  }
  std::printf("predicted memory: largest error %.1f %%\n", 100 * worst);
}

}  // namespace
}  // namespace evenstep::trainer
