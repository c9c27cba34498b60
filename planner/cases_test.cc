// Cases that users of other systems reported, where no other test of this room
// has them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/costs/cost_model.h"
#include "planner/costs/degrees.h"
#include "planner/costs/fits.h"
#include "planner/costs/sample_size.h"
#include "planner/evaluate.h"
#include "planner/planner.h"
#include "planner/testing/random_request.h"

namespace evenstep::planner {
namespace {

using ::testing::ElementsAre;

Plan PlanOf(const PlanRequest& request) {
  auto plan = MakePlan(request);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return {};
  EXPECT_TRUE(CheckPlan(request, *plan).ok()) << CheckPlan(request, *plan);
  return *std::move(plan);
}

PlanRequest Gathering(int num_ranks, const std::vector<int64_t>& lengths) {
  PlanRequest request = testing::SimpleRequest(num_ranks, 4096, lengths);
  request.model.heads = request.model.kv_heads = 1;
  request.model.sp_modes = {SpMode::kKvGather};
  return request;
}

int64_t TokensAt(const PlanRequest& request, int degree, int index) {
  return SizeOf(request.model, SplitFor(request.model, degree),
                request.samples[index])
      .tokens;
}

// Real lengths count, never the width that a run allows.
TEST(CasesTest, RealLengthsCountNeverAPaddedWidth) {
  PlanRequest request = testing::SimpleRequest(16, 8192, {300});
  request.run.max_length = 100'000;
  const Plan plan = PlanOf(request);
  ASSERT_EQ(plan.micro_batches.size(), 1u);
  EXPECT_LE(plan.micro_batches[0].padded_tokens, 304);
}

// Ranks with five and one micro-batches are one plan; under per_round
// every rank is in every round, with work or without.
TEST(CasesTest, RanksWithDifferentNumbersOfMicroBatches) {
  PlanRequest request =
      testing::SimpleRequest(2, 100, {95, 20, 95, 20, 95, 20, 95, 20, 95, 20});
  request.options.policy = Policy::kStatic;
  for (SyncMode sync : {SyncMode::kPerStep, SyncMode::kPerRound}) {
    request.options.sync = sync;
    const Plan plan = PlanOf(request);
    std::vector<int> num_batches(2);
    std::set<int> rounds;
    for (const auto& batch : plan.micro_batches) {
      ++num_batches[batch.first_rank];
      rounds.insert(batch.round);
    }
    EXPECT_THAT(num_batches, ElementsAre(5, 1));
    EXPECT_EQ(rounds.size(), sync == SyncMode::kPerRound ? 5u : 1u);
  }
}

// 2 samples on 4 ranks, 1 on 2, by every policy.
TEST(CasesTest, FewerSamplesThanRanks) {
  for (Policy policy : {Policy::kStatic, Policy::kBalanced, Policy::kPacked,
                        Policy::kEven, Policy::kBucket, Policy::kBucketTuned,
                        Policy::kDcpInter, Policy::kDcpIntra}) {
    for (SyncMode sync : {SyncMode::kPerStep, SyncMode::kPerRound}) {
      PlanRequest two = testing::SimpleRequest(4, 100, {80, 90});
      PlanRequest one = testing::SimpleRequest(2, 100, {50});
      for (PlanRequest* request : {&two, &one}) {
        request->options.policy = policy;
        request->options.sync = sync;
        EXPECT_FALSE(PlanOf(*request).micro_batches.empty());
      }
    }
  }
}

// A on 0-5, B on 6-7, then C on 4-7: C starts when both are done, and
// every rank runs what it runs in the plan's order.
TEST(CasesTest, EveryRanksOrderIsThePlansOrder) {
  PlanRequest request = testing::SimpleRequest(8, 100, {600, 200, 400});
  request.options.blocks = BlockShape::kContiguous;
  request.model.forced_degrees = {2, 4, 6};
  const CostModel costs(request, 0);
  const LowerBound no_bound{0, BoundKind::kArea};
  const Plan plan = BuildPlan(request, costs, no_bound,
                              {{{0, 6}, {0}}, {{6, 2}, {1}}, {{4, 4}, {2}}});
  EXPECT_TRUE(CheckPlan(request, plan).ok()) << CheckPlan(request, plan);
  const auto& batches = plan.micro_batches;
  EXPECT_EQ(plan.predicted_step_ns,
            std::max(batches[0].predicted_ns, batches[1].predicted_ns) +
                batches[2].predicted_ns);
}

// Nodes with different numbers of ranks.
TEST(CasesTest, NodesWithDifferentNumbersOfRanks) {
  PlanRequest request =
      testing::SimpleRequest(15, 100, {700, 90, 80, 300, 20, 50, 60, 70});
  request.cluster.ranks_per_node = {7, 8};
  request.time.collective = {{2, 1e4}, {4, 2e4}, {8, 3e4}};
  request.time.collective_across = {{2, 9e5}, {4, 9e5}, {8, 9e5}};
  for (SyncMode sync : {SyncMode::kPerStep, SyncMode::kPerRound}) {
    request.options.sync = sync;
    PlanOf(request);
  }
  // Ranks 0..7 lie across the nodes, 8..11 do not.
  const CostModel costs(request, 0);
  EXPECT_TRUE(costs.ClassOf({0, 8}).crosses_nodes);
  EXPECT_TRUE(costs.ClassOf({6, 2}).crosses_nodes);
  EXPECT_FALSE(costs.ClassOf({8, 4}).crosses_nodes);
  const BatchSize size = costs.SizeAt(2, request.samples[0]);
  EXPECT_EQ(costs.SampleNs({2, true}, size) - costs.SampleNs({2, false}, size),
            700 * (900'000 - 10'000) / 2);
}

// Aligned powers of two on 64 ranks are 6 groups a rank; contiguous
// intervals are over a thousand.
TEST(CasesTest, SixGroupsPerRankOn64RanksAndOverAThousandIntervals) {
  PlanRequest request = testing::SimpleRequest(64, 100, {1});
  auto groups_of_rank_32 = [&request] {
    int num_groups = 0;
    for (int degree : LegalDegrees(request)) {
      for (const Block& block : BlocksOf(64, degree, request.options.blocks)) {
        const bool holds =
            block.first_rank <= 32 && 32 < block.first_rank + degree;
        if (degree > 1 && holds) ++num_groups;
      }
    }
    return num_groups;
  };
  EXPECT_EQ(groups_of_rank_32(), 6);
  request.options.blocks = BlockShape::kContiguous;
  request.model.sp_modes = {SpMode::kKvGather};
  EXPECT_GT(groups_of_rank_32(), 1000);
}

TEST(CasesTest, ZigzagPads698AtDegreeFourTo704) {
  const PlanRequest request = Gathering(4, {698});
  EXPECT_EQ(TokensAt(request, 4, 0), 704);
  EXPECT_EQ(TokensAt(request, 1, 0), 698);
}

// Every document by itself, and anew at every degree.
TEST(CasesTest, ZigzagPadsEveryDocumentAtItsDegree) {
  PlanRequest request = Gathering(8, {137, 2041, 89});
  std::vector<int64_t> padded;
  for (int i = 0; i < 3; ++i) padded.push_back(TokensAt(request, 8, i));
  EXPECT_THAT(padded, ElementsAre(144, 2048, 96));
  request.memory.tokens_per_rank = (144 + 2048 + 96) / 8;
  EXPECT_TRUE(Fits(request, 8, 0, {0, 1, 2}));
  --request.memory.tokens_per_rank;  // 2,267 real tokens would still fit
  EXPECT_FALSE(Fits(request, 8, 0, {0, 1, 2}));
}

TEST(CasesTest, FortyHeadsWithEightKvHeadsInEverySetting) {
  ModelShape model;
  model.heads = 40;
  model.kv_heads = 8;
  auto legal = [&model] {
    std::vector<int> degrees;
    for (int degree : {1, 2, 4, 5, 8, 10, 20, 40}) {
      if (FindSplit(model, degree)) degrees.push_back(degree);
    }
    return degrees;
  };
  EXPECT_THAT(legal(), ElementsAre(1, 2, 4, 8, 40));
  model.expand_kv_heads = true;
  EXPECT_THAT(legal(), ElementsAre(1, 2, 4, 5, 8, 10, 20, 40));
  EXPECT_EQ(FindSplit(model, 5)->mode, SpMode::kUlysses);
  model.expand_kv_heads = false;
  model.sp_modes = {SpMode::kUlysses, SpMode::kKvGather};
  EXPECT_EQ(FindSplit(model, 8)->mode, SpMode::kUlysses);
  EXPECT_EQ(FindSplit(model, 10)->mode, SpMode::kKvGather);
  model.sp_modes = {SpMode::kUlysses, SpMode::kBoth};
  EXPECT_EQ(FindSplit(model, 20)->mode, SpMode::kBoth);
  EXPECT_EQ(FindSplit(model, 20)->ulysses_degree, 4);
}

// With gather: 28 heads at degree 8.
TEST(CasesTest, TwentyEightHeadsAtDegreeEightNeedGather) {
  ModelShape model;
  model.heads = 28;
  model.kv_heads = 28;
  EXPECT_FALSE(FindSplit(model, 8).has_value());
  model.sp_modes = {SpMode::kUlysses, SpMode::kKvGather};
  EXPECT_EQ(FindSplit(model, 8)->gather_degree, 8);
}

}  // namespace
}  // namespace evenstep::planner
