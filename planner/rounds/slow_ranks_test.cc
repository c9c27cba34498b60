// Slow ranks: which they are, what fits around them, what they cost in rounds.

#include "planner/rounds/slow_ranks.h"

#include <gtest/gtest.h>

#include <vector>

#include "planner/limits.h"
#include "planner/planner.h"
#include "planner/testing/random_request.h"

namespace evenstep::planner {
namespace {

SlowRanks OneSlow(int num_ranks, int rank) {
  Cluster cluster{{num_ranks}, std::vector<double>(num_ranks, 1.0)};
  cluster.rank_speed[rank] = 0.8;
  return FindSlowRanks(cluster);
}

TEST(SlowRanksTest, AFewClearlySlowerOnesAreFound) {
  EXPECT_EQ(FindSlowRanks({{8}, {}}).count, 0);
  SlowRanks slow = OneSlow(8, 3);
  EXPECT_EQ(slow.count, 1);
  EXPECT_EQ(HeldUpNs(slow, 800), 999);  // the speed is rounded
  // At the limits of speeds and costs nothing leaves its range.
  slow.slowest_speed = 1 << 10;
  slow.median_speed = int64_t{1} << 30;
  EXPECT_EQ(HeldUpNs(slow, kMaxRankNs), kMaxRankNs);
  EXPECT_EQ(slow.is_slow, (std::vector<char>{0, 0, 0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(FindSlowRanks({{4}, {1, 1, 0.98, 0.96}}).count, 0);
  // Half of all: no exception any more.
  EXPECT_EQ(FindSlowRanks({{4}, {1, 1, 0.5, 0.5}}).count, 0);
}

TEST(SlowRanksTest, BlocksStandAroundThemAndStayAligned) {
  const SlowRanks slow = OneSlow(8, 3);
  EXPECT_EQ(BlocksAround(slow, {4, 2, 1}, BlockShape::kAligned),
            (std::vector<Block>{{4, 4}, {0, 2}, {2, 1}}));
  EXPECT_TRUE(BlocksAround(slow, {4, 4}, BlockShape::kAligned).empty());
  EXPECT_TRUE(BlocksAround(slow, {5}, BlockShape::kContiguous).empty());
  EXPECT_EQ(BlocksAround(slow, {4, 3}, BlockShape::kContiguous),
            (std::vector<Block>{{4, 4}, {0, 3}}));
}

// 63 ranks at full speed need a little longer than 64; 64 at 0.8 a quarter.
TEST(SlowRanksTest, InRoundsASlowRankIdlesRatherThanHoldEveryoneUp) {
  std::vector<int64_t> lengths;
  for (int i = 0; i < 600; ++i) lengths.push_back(50 + i * 37 % 150);
  PlanRequest request = testing::SimpleRequest(64, 1000, lengths);
  request.options.sync = SyncMode::kPerRound;
  auto healthy = MakePlan(request);
  request.cluster.rank_speed.assign(64, 1.0);
  request.cluster.rank_speed[20] = 0.8;
  auto plan = MakePlan(request);
  ASSERT_TRUE(healthy.ok() && plan.ok());
  EXPECT_TRUE(CheckPlan(request, *plan).ok());
  EXPECT_LE(plan->predicted_step_ns, 1.1 * healthy->predicted_step_ns);
}

// A wide micro-batch over the slow rank would waste half of three others.
TEST(SlowRanksTest, PerStepWideMicroBatchesStayOffTheSlowRanksBlock) {
  for (int slow_rank = 0; slow_rank < 8; ++slow_rank) {
    std::vector<int64_t> lengths(400, 100);
    lengths.insert(lengths.end(), {3900, 3900, 3900});  // need four ranks
    PlanRequest request = testing::SimpleRequest(8, 1000, lengths);
    request.cluster.rank_speed.assign(8, 1.0);
    request.cluster.rank_speed[slow_rank] = 0.5;
    auto plan = MakePlan(request);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(CheckPlan(request, *plan).ok());
    for (const MicroBatch& batch : plan->micro_batches) {
      if (batch.degree < 4) continue;
      EXPECT_EQ(batch.first_rank, slow_rank < 4 ? 4 : 0);
    }
    EXPECT_LE(plan->predicted_step_ns, 1.02 * plan->lower_bound_ns);
  }
}

}  // namespace
}  // namespace evenstep::planner
