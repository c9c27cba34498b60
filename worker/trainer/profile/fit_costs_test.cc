#include "worker/trainer/profile/fit_costs.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace evenstep::trainer {
namespace {

ComputePoint Point(const planner::ModelShape& model,
                   const planner::Sample& sample,
                   const planner::LayerCounts& recompute_layers, double ns) {
  return {planner::WorkOf(model, {}, {sample}, recompute_layers), ns};
}

planner::TimeModel FitText(
    const std::vector<std::pair<int64_t, double>>& times) {
  std::vector<ComputePoint> points;
  for (const auto& [tokens, ns] : times) {
    planner::Sample sample;
    sample.length = tokens;
    points.push_back(Point({}, sample, 0, ns));
  }
  return FitCompute({}, points);
}

TEST(FitComputeTest, ThreePointsGiveTheirCoefficientsBack) {
  const double c0 = 4e5, a1 = 2e4, a2 = 1.5;
  const auto ns = [=](double s) { return c0 + a1 * s + a2 * s * s; };
  const planner::TimeModel costs =
      FitText({{16, ns(16)}, {512, ns(512)}, {4096, ns(4096)}});
  EXPECT_NEAR(static_cast<double>(costs.micro_batch_fixed_ns) / c0, 1, 1e-5);
  EXPECT_NEAR(costs.linear_ns_per_token / a1, 1, 1e-6);
  EXPECT_NEAR(costs.quadratic_ns_per_token2 / a2, 1, 1e-6);
  EXPECT_EQ(costs.head_ns_per_token, 0);
}

TEST(FitComputeTest, NoCoefficientIsEverNegative) {
  // Slower per token when short: a parabola through these bends down.
  const planner::TimeModel costs =
      FitText({{16, 1e6}, {512, 2e7}, {4096, 1.2e8}});
  EXPECT_GE(costs.micro_batch_fixed_ns, 0);
  EXPECT_GT(costs.linear_ns_per_token, 0);
  EXPECT_EQ(costs.quadratic_ns_per_token2, 0);
  EXPECT_NEAR(static_cast<double>(costs.micro_batch_fixed_ns) +
                  4096 * costs.linear_ns_per_token,
              1.2e8, 0.4e8);
}

TEST(FitComputeTest, EqualPointsGiveThatTime) {
  const planner::TimeModel costs = FitText({{8, 100}, {8, 100}, {8, 100}});
  EXPECT_NEAR(static_cast<double>(costs.micro_batch_fixed_ns) +
                  8 * costs.linear_ns_per_token +
                  64 * costs.quadratic_ns_per_token2,
              100, 1e-6);
}

TEST(FitComputeTest, NoPointsGiveZeros) {
  EXPECT_EQ(FitCompute({}, {}), planner::TimeModel());
}

// What made the points is found again, recompute taken out.
TEST(FitComputeTest, FindsTheCostsOfEitherKindOfLayer) {
  planner::ModelShape model;
  model.spatial_layers = model.temporal_layers = 3;
  std::vector<ComputePoint> points;
  for (const auto& [frames, patches] : std::vector<std::pair<int, int>>{
           {1, 16}, {1, 1024}, {1024, 1}, {16, 16}, {32, 32}}) {
    planner::Sample clip;
    clip.length = int64_t{frames} * patches;
    clip.frames = frames;
    clip.height = 1;
    clip.width = patches;
    const auto tokens = static_cast<double>(clip.length);
    const double spatial = 4.0 / 3.0;  // all of these layers run again
    points.push_back(Point(model, clip, {3, 0},
                           50000 + 300 * tokens * (spatial + 1) +
                               2.0 * tokens * patches * spatial +
                               5.0 * tokens * frames));
  }
  const planner::TimeModel costs = FitCompute(model, points);
  EXPECT_NEAR(static_cast<double>(costs.micro_batch_fixed_ns), 50000, 50);
  EXPECT_NEAR(costs.spatial.linear_ns_per_token, 300, 0.5);
  EXPECT_NEAR(costs.temporal.linear_ns_per_token, 300, 0.5);
  EXPECT_NEAR(costs.spatial.quadratic_ns_per_token2, 2, 0.01);
  EXPECT_NEAR(costs.temporal.quadratic_ns_per_token2, 5, 0.01);
  EXPECT_EQ(costs.linear_ns_per_token, 0);
}

TEST(FitAllToAllTest, LatencyAndBandwidthSeparate) {
  const AllToAllCosts costs =
      FitAllToAll({1024, 50e3 + 1024 * 0.5}, {1 << 20, 50e3 + 0.5 * (1 << 20)});
  EXPECT_NEAR(costs.latency_ns, 50e3, 1e-3);
  EXPECT_NEAR(costs.ns_per_byte, 0.5, 1e-9);
}

TEST(FitAllToAllTest, NoiseNeverMakesANegativeCost) {
  const AllToAllCosts costs = FitAllToAll({1024, 90e3}, {1 << 20, 80e3});
  EXPECT_EQ(costs.ns_per_byte, 0);
  EXPECT_EQ(costs.latency_ns, 90e3);
}

TEST(GatherBytesPerTokenTest, KeysAndValuesComeTwiceAndTheirGradientsOnce) {
  planner::ModelShape model;
  model.num_layers = 2;
  model.width = 64;
  model.heads = 8;
  model.kv_heads = 2;
  model.sp_modes = {planner::SpMode::kKvGather};
  EXPECT_DOUBLE_EQ(GatherBytesPerToken(model, 4, 4), 3 * 2 * 16 * 2 * 4);
}

// One head of 16 for 4 ranks that share by heads, in two such parts of 8.
TEST(GatherBytesPerTokenTest, CopiesOfHeadsAreGatheredToo) {
  planner::ModelShape model;
  model.num_layers = 2;
  model.width = 64;
  model.heads = 4;
  model.kv_heads = 1;
  model.sp_modes = {planner::SpMode::kBoth};
  EXPECT_DOUBLE_EQ(GatherBytesPerToken(model, 8, 4), 3 * 2 * 4 * 16 * 2 * 4);
}

// By hand: q and out are a width each, k and v a width each with a head for
// every one of the 4 ranks; forward and backward.
TEST(AllToAllBytesPerTokenTest, HeadsAreCopiedForTheRanksThatShareByThem) {
  planner::ModelShape model;
  model.num_layers = 3;
  model.width = 64;
  model.heads = 4;
  model.kv_heads = 1;
  model.sp_modes = {planner::SpMode::kBoth};
  EXPECT_DOUBLE_EQ(AllToAllBytesPerToken(model, 8, 4), 8 * 64 * 3 * 4);
}

TEST(AllToAllBytesPerTokenTest, ExpandedHeadsAreAsManyAsQueryHeads) {
  planner::ModelShape model;
  model.num_layers = 3;
  model.width = 80;
  model.heads = 40;
  model.kv_heads = 8;
  model.expand_kv_heads = true;
  EXPECT_DOUBLE_EQ(AllToAllBytesPerToken(model, 5, 4), 8 * 80 * 3 * 4);
  // A degree that divides them copies none.
  EXPECT_DOUBLE_EQ(AllToAllBytesPerToken(model, 4, 4), 4.8 * 80 * 3 * 4);
}

TEST(AllToAllBytesPerTokenTest, KeysAndValuesCountByTheirShareOfHeads) {
  planner::ModelShape model;
  model.num_layers = 3;
  model.width = 64;
  model.heads = 8;
  model.kv_heads = 2;
  // 2 passes * 3 layers * 64 * 4 bytes * (q + out + 2 * kv share).
  EXPECT_DOUBLE_EQ(AllToAllBytesPerToken(model, 2, 4), 6 * 64 * 4 * 2.5);
  // At degree 4 the two KV heads are replicated to four.
  EXPECT_DOUBLE_EQ(AllToAllBytesPerToken(model, 4, 4), 6 * 64 * 4 * 3.0);
}

TEST(MedianTest, TakesTheMiddle) {
  EXPECT_EQ(Median({5, 1, 9}), 5);
  EXPECT_EQ(Median({4, 1, 9, 2}), 2);
  EXPECT_EQ(Median({}), 0);
}

}  // namespace
}  // namespace evenstep::trainer
