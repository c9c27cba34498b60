#include "worker/trainer/profile/fit_costs.h"

#include "gtest/gtest.h"

namespace evenstep::trainer {
namespace {

ComputePoint Point(int64_t tokens, double c0, double a1, double a2) {
  const auto s = static_cast<double>(tokens);
  return {tokens, c0 + a1 * s + a2 * s * s};
}

TEST(FitComputeTest, ThreePointsGiveTheirCoefficientsBack) {
  const double c0 = 4e5, a1 = 2e4, a2 = 1.5;
  const ComputeCosts costs = FitCompute(
      {Point(16, c0, a1, a2), Point(512, c0, a1, a2), Point(4096, c0, a1, a2)});
  EXPECT_NEAR(costs.fixed_ns / c0, 1, 1e-6);
  EXPECT_NEAR(costs.linear_ns_per_token / a1, 1, 1e-6);
  EXPECT_NEAR(costs.quadratic_ns_per_token2 / a2, 1, 1e-6);
}

TEST(FitComputeTest, NoCoefficientIsEverNegative) {
  // Slower per token when short: a parabola through these bends down.
  const ComputeCosts costs = FitCompute({{16, 1e6}, {512, 2e7}, {4096, 1.2e8}});
  EXPECT_GE(costs.fixed_ns, 0);
  EXPECT_GT(costs.linear_ns_per_token, 0);
  EXPECT_EQ(costs.quadratic_ns_per_token2, 0);
  EXPECT_NEAR(costs.fixed_ns + 4096 * costs.linear_ns_per_token, 1.2e8, 0.4e8);
}

TEST(FitComputeTest, EqualPointsGiveThatTime) {
  const ComputeCosts costs = FitCompute({{8, 100}, {8, 100}, {8, 100}});
  EXPECT_NEAR(costs.fixed_ns + 8 * costs.linear_ns_per_token +
                  64 * costs.quadratic_ns_per_token2,
              100, 1e-6);
}

TEST(FitComputeTest, NoPointsGiveZeros) {
  const ComputeCosts costs = FitCompute({});
  EXPECT_EQ(costs.fixed_ns, 0);
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
