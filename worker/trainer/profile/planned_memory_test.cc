// The planner's memory formula with a decoder's constants, against what tensors
// take: no constant is fitted to what is measured here. Beside tensors that
// grow with the tokens the attention kernel has a workspace of up to 1 MB,
// whatever the rank's share; shapes here are large enough that it does not
// show.

#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "absl/strings/str_cat.h"
#include "jobspec/plan_request.h"
#include "worker/trainer/testing/memory_sweep.h"

namespace evenstep::trainer {
namespace {

using testing::CompareMemory;
using testing::MeasureMemory;
using testing::MemoryCase;
using testing::MemorySweep;
using testing::MemoryUse;

jobspec::JobSpec Job(int layers, int width) {
  jobspec::JobSpec job;
  job.model.layers = layers;
  job.model.width = width;
  job.model.heads = job.model.kv_heads = 4;
  return job;
}

DecoderConfig ConfigOf(const jobspec::JobSpec& job) {
  DecoderConfig config;
  config.layers = job.model.layers;
  config.width = job.model.width;
  config.heads = job.model.heads;
  config.kv_heads = job.model.kv_heads;
  config.vocab = job.model.vocab;
  config.mlp_width = job.model.mlp_width;
  return config;
}

MemoryUse MustMeasure(const jobspec::JobSpec& job, const MemoryCase& what) {
  const auto use = MeasureMemory(ConfigOf(job), what);
  EXPECT_TRUE(use.ok()) << use.status();
  return use.ok() ? *use : MemoryUse{1, 1, 1};
}

void Check(const jobspec::JobSpec& job, const MemoryCase& what,
           MemorySweep* sweep) {
  sweep->Check(
      CompareMemory(job, ConfigOf(job), what),
      absl::StrCat(job.model.layers, " layers of width ", job.model.width, ", ",
                   what.length, " tokens at degree ", what.degree, " (",
                   what.ulysses_degree, " by heads), ", what.recompute_layers,
                   " layers recomputed"));
}

TEST(PlannedMemoryTest, IsWithinATenthOverLayersLengthsDegreesAndRecompute) {
  MemorySweep sweep("ulysses");
  for (const int layers : {2, 8}) {
    const jobspec::JobSpec job = Job(layers, 128);
    const std::set<int> recompute = {0, 1, layers / 2, layers - 1, layers};
    for (const int64_t length : {512, 1024}) {
      for (const int degree : {1, 2, 4}) {
        for (const int n : recompute) {
          Check(job, {length, degree, n, degree}, &sweep);
        }
      }
    }
  }
}

TEST(PlannedMemoryTest, FollowsTheWidth) {
  MemorySweep sweep("width 256");
  const jobspec::JobSpec job = Job(3, 256);
  for (const int n : {0, 2, 3}) Check(job, {512, 2, n, 2}, &sweep);
}

TEST(PlannedMemoryTest, CountsGatheredKeysAndValues) {
  MemorySweep sweep("kv_gather");
  jobspec::JobSpec job = Job(8, 64);
  job.model.sp_modes = {planner::SpMode::kKvGather};
  for (const int degree : {2, 4}) {
    for (const int n : {0, 4, 8}) {
      Check(job, {512, degree, n, 1}, &sweep);
    }
  }
}

// More ranks than key and value heads: each is on several. They are a large
// part of a layer with a narrow MLP.
TEST(PlannedMemoryTest, CountsCopiesOfKeyAndValueHeads) {
  MemorySweep sweep("copied key and value heads");
  jobspec::JobSpec job = Job(8, 128);
  job.model.heads = 8;
  job.model.kv_heads = 1;
  job.model.mlp_width = 64;
  for (const int degree : {2, 4, 8}) {
    for (const int n : {0, 4}) Check(job, {760, degree, n, degree}, &sweep);
  }
}

// Both at once: the copies are gathered, which is more than other gradients
// with all layers recomputed. Each rank has as many tokens as above: gradients
// of weights do not grow with them either.
TEST(PlannedMemoryTest, CountsGatheredCopiesOfKeyAndValueHeads) {
  MemorySweep sweep("gathered copies of key and value heads");
  jobspec::JobSpec job = Job(8, 128);
  job.model.kv_heads = 1;
  job.model.sp_modes = {planner::SpMode::kBoth};
  for (const int n : {0, 8}) Check(job, {2048, 8, n, 4}, &sweep);
}

TEST(PlannedMemoryTest, TheModelsWidthOfTheMlpIsTheTrainers) {
  for (const int width : {16, 64, 128, 256, 300}) {
    DecoderConfig config;
    config.width = width;
    EXPECT_EQ(jobspec::DecoderMlpWidth(width), MlpWidth(config));
  }
}

// At most 40 % of what is held without recompute.
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
