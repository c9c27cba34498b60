// The planner's memory formula with a decoder's constants, against what tensors
// take: no constant is fitted to what is measured here. Beside tensors that
// grow with the tokens the attention kernel has a workspace of up to 1 MB,
// whatever the rank's share; shapes here are large enough that it does not
// show.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "jobspec/decoder_memory.h"
#include "planner/costs/memory_model.h"
#include "worker/trainer/model/tensor_memory.h"
#include "worker/trainer/testing/measure_memory.h"

namespace evenstep::trainer {
namespace {

using testing::MeasureMemory;
using testing::MemoryCase;
using testing::MemoryUse;

constexpr double kTolerance = 0.1;

// Before any tensor of the process.
const bool kCounted = [] {
  CountTensorBytes();
  return true;
}();

jobspec::JobSpec Job(int layers, int width) {
  jobspec::JobSpec job;
  job.model.layers = layers;
  job.model.width = width;
  job.model.heads = 4;
  job.model.kv_heads = 4;
  return job;
}

DecoderConfig ConfigOf(const jobspec::JobSpec& job) {
  DecoderConfig config;
  config.layers = job.model.layers;
  config.width = job.model.width;
  config.heads = job.model.heads;
  config.kv_heads = job.model.kv_heads;
  config.vocab = job.model.vocab;
  return config;
}

MemoryUse MustMeasure(const jobspec::JobSpec& job, const MemoryCase& what) {
  const auto use = MeasureMemory(ConfigOf(job), what);
  EXPECT_TRUE(use.ok()) << use.status();
  return use.ok() ? *use : MemoryUse{1, 1, 1};
}

// Predicted over measured, minus 1.
double ErrorOf(const jobspec::JobSpec& job, const MemoryCase& what) {
  const MemoryUse use = MustMeasure(job, what);
  const int64_t predicted =
      planner::PredictBytes(jobspec::ToPlanRequest(job), what.recompute_layers,
                            what.degree, use.own_tokens * what.degree);
  const double error =
      static_cast<double>(predicted) / static_cast<double>(use.bytes) - 1;
  EXPECT_LE(std::abs(error), kTolerance)
      << job.model.layers << " layers of width " << job.model.width << ", "
      << what.length << " tokens at degree " << what.degree << " ("
      << what.ulysses_degree << " by heads), " << what.recompute_layers
      << " layers recomputed: " << predicted << " bytes, measured "
      << use.bytes;
  return error;
}

// What a sweep saw of the errors.
struct Range {
  double least = 0;
  double most = 0;
  int count = 0;
  void Add(double error) {
    least = std::min(least, error);
    most = std::max(most, error);
    ++count;
  }
  void Print(const char* what) const {
    std::printf("predicted memory, %s: %.1f %% to %+.1f %% over %d cases\n",
                what, 100 * least, 100 * most, count);
  }
};

TEST(PlannedMemoryTest, IsWithinATenthOverLayersLengthsDegreesAndRecompute) {
  ASSERT_TRUE(kCounted);
  Range range;
  for (const int layers : {2, 8}) {
    const jobspec::JobSpec job = Job(layers, 128);
    const std::set<int> recompute = {0, 1, layers / 2, layers - 1, layers};
    for (const int64_t length : {512, 1024}) {
      for (const int degree : {1, 2, 4}) {
        for (const int n : recompute) {
          range.Add(ErrorOf(job, {length, degree, n, degree}));
        }
      }
    }
  }
  range.Print("ulysses");
}

TEST(PlannedMemoryTest, FollowsTheWidth) {
  Range range;
  const jobspec::JobSpec job = Job(3, 256);
  for (const int n : {0, 2, 3}) range.Add(ErrorOf(job, {512, 2, n, 2}));
  range.Print("width 256");
}

TEST(PlannedMemoryTest, CountsGatheredKeysAndValues) {
  Range range;
  jobspec::JobSpec job = Job(8, 64);
  job.model.sp_modes = {planner::SpMode::kKvGather};
  for (const int degree : {2, 4}) {
    for (const int n : {0, 4, 8}) {
      range.Add(ErrorOf(job, {512, degree, n, 1}));
    }
  }
  range.Print("kv_gather");
}

TEST(PlannedMemoryTest, TheModelsWidthOfTheMlpIsTheTrainers) {
  for (const int width : {16, 64, 128, 256, 300}) {
    DecoderConfig config;
    config.width = width;
    EXPECT_EQ(jobspec::DecoderMlpWidth(width), MlpWidth(config));
  }
}

// The bound: at most 40 %.
TEST(RecomputeMemoryTest, RecomputeOfAllEightLayersHoldsAtMostTwoFifths) {
  const jobspec::JobSpec job = Job(8, 64);
  const MemoryUse plain = MustMeasure(job, {1024, 1, 0});
  const MemoryUse recomputed = MustMeasure(job, {1024, 1, 8});
  const double share =
      static_cast<double>(recomputed.bytes) / static_cast<double>(plain.bytes);
  std::printf(
      "recompute of 8 of 8 layers: %.1f %% of the bytes, %.2f times the CPU "
      "seconds\n",
      100 * share, recomputed.cpu_seconds / plain.cpu_seconds);
  EXPECT_LE(share, 0.4);
}

}  // namespace
}  // namespace evenstep::trainer
