#include "planner/costs/cost_model.h"

#include <gtest/gtest.h>

#include <string>

#include "planner/costs/degrees.h"
#include "planner/costs/memory_model.h"
#include "planner/models/published_costs.h"
#include "planner/planner.h"
#include "planner/testing/random_request.h"

namespace evenstep::planner {
namespace {

// 4 layers; every coefficient its own digit, so that a missing term shows.
PlanRequest Priced() {
  PlanRequest request = testing::SimpleRequest(4, 1000, {10});
  request.model.num_layers = 4;
  request.time.micro_batch_fixed_ns = 1'000'000;
  request.time.linear_ns_per_token = 100;
  request.time.quadratic_ns_per_token2 = 2;
  request.time.collective_latency_ns = 10'000;
  request.time.collective = {{2, 40}, {4, 80}};
  return request;
}

BatchSize Size(int64_t tokens, int64_t pairs) { return {tokens, {pairs, 0}}; }

TEST(CostModelTest, DegreeOnePaysNoCommunication) {
  const CostModel costs(Priced(), 0);
  // c0 + 100 * 10 + 2 * 10^2
  EXPECT_EQ(costs.MicroBatchNs({1}, Size(10, 100)), 1'000'000 + 1000 + 200);
}

TEST(CostModelTest, DegreeTwoHalvesWorkAndPaysCollectives) {
  const CostModel costs(Priced(), 0);
  // 8 L = 32 latencies; 10 tokens * 40 / 2.
  EXPECT_EQ(costs.MicroBatchNs({2}, Size(10, 100)),
            1'000'000 + 600 + 320'000 + 200);
}

TEST(CostModelTest, RecomputeOfAllLayersAddsAThirdAndHalfTheTraffic) {
  const CostModel costs(Priced(), 4);
  // 12 L = 48 latencies; 1.5 times the traffic.
  EXPECT_EQ(costs.MicroBatchNs({2}, Size(10, 100)),
            1'000'000 + 800 + 480'000 + 300);
  EXPECT_EQ(costs.FixedNs({1}), 1'000'000);
}

TEST(CostModelTest, AnAbsentDegreeTakesTheNextLargerCostOrTheLast) {
  PlanRequest request = Priced();
  request.time.collective_latency_ns = 0;
  request.time.collective = {{4, 80}};
  const CostModel costs(request, 0);
  EXPECT_EQ(costs.SampleNs({2}, Size(10, 100)), 600 + 400);
  EXPECT_EQ(costs.SampleNs({8}, Size(10, 100)), 150 + 100);
}

TEST(CostModelTest, PaddedTokensArePaidOnceByTheMicroBatch) {
  const CostModel costs(Priced(), 0);
  EXPECT_EQ(costs.MicroBatchNs({4}, Size(12, 100)) -
                costs.MicroBatchNs({4}, Size(8, 100)),
            4 * 100 / 4 + 4 * 80 / 4);
}

TEST(CostModelTest, ABlockRunsAtTheSpeedOfItsSlowestRankRoundedUp) {
  PlanRequest request = Priced();
  request.cluster.rank_speed = {1, 0.75, 2, 2};
  const CostModel costs(request, 0);
  EXPECT_EQ(CostModel::AtSpeed(100, costs.BlockSpeed({0, 4})), 134);
  EXPECT_EQ(CostModel::AtSpeed(100, costs.BlockSpeed({2, 2})), 50);
  EXPECT_EQ(CostModel::AtSpeed(100, costs.BlockSpeed({0, 1})), 100);
}

TEST(CostModelTest, AMicroBatchCostsAtLeastItsParts) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const PlanRequest request = testing::RandomRequest(seed, {});
    const CostModel costs(request, request.options.recompute_layers);
    for (int degree : {1, 2, 4, 6}) {
      int64_t parts_ns = costs.FixedNs({degree});
      BatchSize size;
      for (const Sample& sample : request.samples) {
        parts_ns += costs.SampleNs({degree}, costs.SizeAt(degree, sample));
        size += costs.SizeAt(degree, sample);
      }
      EXPECT_GE(costs.MicroBatchNs({degree}, size), parts_ns);
    }
  }
}

TEST(PublishedCostsTest, FlexSpConstantsAreTheTablesOwn) {
  auto costs = FindPublishedCosts("flexsp-7b-a100");
  ASSERT_TRUE(costs.ok());
  EXPECT_EQ(costs->time.micro_batch_fixed_ns, 629'400'000);
  // 16 L h s / 2^20 / d / bw(d) ms for 1 Mi tokens at degree 8.
  PlanRequest request = testing::SimpleRequest(8, 1 << 20, {1});
  request.model = costs->model;
  request.time = costs->time;
  request.time.linear_ns_per_token = 0;
  request.time.quadratic_ns_per_token2 = 0;
  const CostModel model(request, 0);
  const double expected_ms = 16.0 * 32 * 4096 / 8 / 96.5;
  EXPECT_NEAR(model.SampleNs({8}, Size(1 << 20, 0)) / 1e6, expected_ms, 1e-3);
  EXPECT_EQ(FindPublishedCosts("nobody").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(PublishedCostsTest, EveryModelPlansAStepOn32RanksByEveryPolicy) {
  for (const std::string& name : PublishedCostNames()) {
    auto costs = FindPublishedCosts(name);
    ASSERT_TRUE(costs.ok());
    PlanRequest request =
        testing::SimpleRequest(32, 0, {20000, 9000, 3000, 1600, 1600, 1600});
    for (Sample& sample : request.samples) {
      sample.frames = sample.height = 10;
      sample.width = sample.length / 100;
    }
    request.cluster.ranks_per_node = {8, 8, 8, 8};
    request.model = costs->model;
    request.time = costs->time;
    request.memory = costs->memory;
    for (Policy policy : {Policy::kStatic, Policy::kBalanced, Policy::kPacked,
                          Policy::kBucket, Policy::kDcpIntra, Policy::kEven}) {
      request.options.policy = policy;
      auto plan = MakePlan(request);
      ASSERT_TRUE(plan.ok()) << name << ": " << plan.status();
      EXPECT_TRUE(CheckPlan(request, *plan).ok()) << CheckPlan(request, *plan);
    }
  }
}

TEST(PublishedCostsTest, FlexSpMemoryHoldsTheTokensOfItsSetUp) {
  PlanRequest request = testing::SimpleRequest(8, 0, {1});
  auto costs = FindPublishedCosts("flexsp-7b-a100");
  ASSERT_TRUE(costs.ok());
  request.model = costs->model;
  request.memory = costs->memory;
  EXPECT_NEAR(TokensPerRank(request, 0), 6449, 1);
}

}  // namespace
}  // namespace evenstep::planner
