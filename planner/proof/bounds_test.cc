#include "planner/proof/bounds.h"

#include <gtest/gtest.h>

#include "planner/testing/brute_force.h"
#include "planner/testing/random_request.h"

namespace evenstep::planner {
namespace {

LowerBound BoundOf(const PlanRequest& request) {
  const CostModel costs(request, request.options.recompute_layers);
  return ComputeLowerBound(request, costs, CostTable(request, costs));
}

TEST(BoundsTest, NeverExceedsTheOptimumOfSmallVideoCases) {
  int solved = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    PlanRequest request =
        testing::AsVideo(testing::RandomRequest(seed, {4, 4}), seed);
    if (seed % 3 == 1) request.options.sync = SyncMode::kPerRound;
    auto optimum_ns = testing::BruteForceStepNs(request);
    if (!optimum_ns.ok()) continue;
    ++solved;
    EXPECT_LE(BoundOf(request).step_ns, *optimum_ns) << "seed " << seed;
  }
  EXPECT_GT(solved, 200);
}

TEST(BoundsTest, NeverExceedsTheOptimumInAnyModeOfSequenceParallelism) {
  int solved = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    PlanRequest request =
        testing::WithSpModes(testing::RandomRequest(seed, {4, 4}), seed);
    if (seed % 3 == 1) request.options.sync = SyncMode::kPerRound;
    auto optimum_ns = testing::BruteForceStepNs(request);
    if (!optimum_ns.ok()) continue;
    ++solved;
    EXPECT_LE(BoundOf(request).step_ns, *optimum_ns) << "seed " << seed;
  }
  EXPECT_GT(solved, 150);
}

TEST(BoundsTest, NeverExceedsTheOptimumOfSmallCases) {
  int solved = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const PlanRequest request = testing::RandomRequest(seed, {4, 4});
    auto optimum_ns = testing::BruteForceStepNs(request);
    if (!optimum_ns.ok()) continue;
    ++solved;
    EXPECT_LE(BoundOf(request).step_ns, *optimum_ns) << "seed " << seed;
  }
  EXPECT_GT(solved, 200);
}

TEST(BoundsTest, NeverExceedsTheOptimumOfSmallStepsInRounds) {
  int solved = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    PlanRequest request = testing::RandomRequest(seed, {4, 4});
    request.options.sync = SyncMode::kPerRound;
    request.options.blocks =
        seed % 2 == 0 ? BlockShape::kAligned : BlockShape::kContiguous;
    auto optimum_ns = testing::BruteForceStepNs(request);
    if (!optimum_ns.ok()) continue;
    ++solved;
    EXPECT_LE(BoundOf(request).step_ns, *optimum_ns) << "seed " << seed;
  }
  EXPECT_GT(solved, 200);
}

TEST(BoundsTest, NeverExceedsTheOptimumWhereRecomputeIsChosen) {
  int solved = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    PlanRequest request =
        testing::WithRecomputeChoices(testing::RandomRequest(seed, {4, 4}));
    if (seed % 2 == 1) request.options.sync = SyncMode::kPerRound;
    auto optimum_ns = testing::BruteForceStepNs(request);
    if (!optimum_ns.ok()) continue;
    ++solved;
    EXPECT_LE(BoundOf(request).step_ns, *optimum_ns) << "seed " << seed;
  }
  EXPECT_GT(solved, 150);
}

TEST(BoundsTest, CountsTheRoundsThatMemoryForces) {
  // 30 tokens of 4 ranks with room for 3 each: three rounds at 1 s; 30 s of
  // work spread over four ranks.
  PlanRequest request = testing::SimpleRequest(4, 3, {10, 10, 10});
  request.time.linear_ns_per_token = 1e9;
  request.time.micro_batch_fixed_ns = 1'000'000'000;
  request.options.sync = SyncMode::kPerRound;
  EXPECT_EQ(BoundOf(request).step_ns, 10'500'000'000);
}

TEST(BoundsTest, NamesTheAreaWhereRanksAreSimplyFull) {
  std::vector<int64_t> lengths(64, 10);
  const LowerBound bound = BoundOf(testing::SimpleRequest(2, 1000, lengths));
  EXPECT_EQ(bound.kind, BoundKind::kArea);
  EXPECT_EQ(bound.step_ns, 320'000'000);
}

TEST(BoundsTest, NamesTheLongestSampleWhereItDecides) {
  PlanRequest request = testing::SimpleRequest(4, 1000, {100, 1, 1});
  request.model.heads = request.model.kv_heads = 1;
  const LowerBound bound = BoundOf(request);
  EXPECT_EQ(bound.kind, BoundKind::kLongest);
  EXPECT_EQ(bound.step_ns, 100'000'000);
}

// Two ranks would take half the time, but they gather more than they hold.
TEST(BoundsTest, ADegreeThatMemoryForbidsDoesNotShortenTheLongest) {
  PlanRequest request = testing::SimpleRequest(2, 0, {90});
  request.model.sp_modes = {SpMode::kKvGather};
  request.memory.activation_bytes = 90;
  request.memory.layer_bytes_per_token = 1;
  request.memory.gathered_bytes_per_token = 100;
  const LowerBound bound = BoundOf(request);
  EXPECT_EQ(bound.kind, BoundKind::kLongest);
  EXPECT_EQ(bound.step_ns, 90'000'000);
}

TEST(BoundsTest, NamesMemoryWhereMicroBatchesAreForced) {
  // Three samples of 6 under a cap of 10 on two ranks: 18 tokens are two
  // places, but 22 tokens would be three, so one rank runs two.
  PlanRequest request = testing::SimpleRequest(2, 10, {8, 7, 7});
  request.time.linear_ns_per_token = 0;
  request.time.micro_batch_fixed_ns = 1'000'000;
  const LowerBound bound = BoundOf(request);
  EXPECT_EQ(bound.kind, BoundKind::kMemory);
  EXPECT_EQ(bound.step_ns, 2'000'000);
}

TEST(BoundsTest, NamesTheDestructiveBoundWhereLongSamplesMustSpread) {
  // Alone at degree 1 the long sample takes 1 s; spread over four ranks it
  // costs more rank-time, which leaves less for the others.
  PlanRequest request =
      testing::SimpleRequest(4, 1000, {1000, 500, 500, 500, 500});
  request.time.collective = {{2, 2e5}, {4, 4e5}};
  EXPECT_EQ(BoundOf(request).kind, BoundKind::kDestructive);
}

}  // namespace
}  // namespace evenstep::planner
