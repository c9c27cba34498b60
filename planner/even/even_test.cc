// `even` against brute force, its rivals, and odd worlds.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "planner/planner.h"
#include "planner/testing/brute_force.h"
#include "planner/testing/random_request.h"

namespace evenstep::planner {
namespace {

constexpr Policy kOthers[] = {
    Policy::kStatic,      Policy::kBalanced, Policy::kPacked,  Policy::kBucket,
    Policy::kBucketTuned, Policy::kDcpInter, Policy::kDcpIntra};

int64_t StepNs(PlanRequest request, Policy policy) {
  request.options.policy = policy;
  auto plan = MakePlan(request);
  return plan.ok() ? plan->predicted_step_ns : INT64_MAX;
}

// Against brute force over the requests of `make`, by seed; how many of them
// can be planned.
template <typename MakeRequest>
int CountOptimal(uint64_t num_seeds, const MakeRequest& make) {
  int solved = 0;
  for (uint64_t seed = 0; seed < num_seeds; ++seed) {
    const PlanRequest request = make(seed);
    const auto optimum_ns = testing::BruteForceStepNs(request);
    const auto plan = MakePlan(request);
    EXPECT_EQ(plan.ok(), optimum_ns.ok()) << "seed " << seed;
    if (!plan.ok() || !optimum_ns.ok()) continue;
    ++solved;
    EXPECT_EQ(plan->predicted_step_ns, *optimum_ns) << "seed " << seed;
  }
  return solved;
}

TEST(EvenTest, IsOptimalOnSmallSteps) {
  const auto make = [](uint64_t seed) {
    return testing::RandomRequest(seed, {4, 5});
  };
  EXPECT_GT(CountOptimal(150, make), 75);
}

TEST(EvenTest, IsOptimalOnSixRanksToo) {
  const auto make = [](uint64_t seed) {
    PlanRequest request = testing::RandomRequest(seed, {4, 4});
    request.cluster = {{4, 2}, {}};
    request.model.heads = request.model.kv_heads = 12;
    return request;
  };
  EXPECT_GT(CountOptimal(60, make), 30);
}

TEST(EvenTest, IsOptimalOnSmallStepsInRounds) {
  const auto make = [](uint64_t seed) {
    PlanRequest request = testing::RandomRequest(seed, {4, 4});
    request.options.sync = SyncMode::kPerRound;
    request.options.blocks =
        seed % 2 == 0 ? BlockShape::kAligned : BlockShape::kContiguous;
    return request;
  };
  EXPECT_GT(CountOptimal(120, make), 60);
}

TEST(EvenTest, IsOptimalInRoundsWithRecomputeToo) {
  const auto make = [](uint64_t seed) {
    PlanRequest request =
        testing::WithRecomputeChoices(testing::RandomRequest(seed, {4, 4}));
    request.options.sync = SyncMode::kPerRound;
    return request;
  };
  EXPECT_GT(CountOptimal(120, make), 60);
}

TEST(EvenTest, NoPlanIsFasterOnUpToEightSamplesAndFourRanks) {
  for (SyncMode sync : {SyncMode::kPerStep, SyncMode::kPerRound}) {
    int optimal = 0, planned = 0;
    for (uint64_t seed = 50000; seed < 50060; ++seed) {
      PlanRequest request = testing::RandomRequest(seed, {4, 8});
      request.options.sync = sync;
      auto plan = MakePlan(request);
      if (!plan.ok()) continue;
      ++planned;
      const int64_t step_ns = plan->predicted_step_ns;
      EXPECT_TRUE(testing::FasterPlanExists(request, step_ns + 1)) << seed;
      if (!testing::FasterPlanExists(request, step_ns)) ++optimal;
    }
    EXPECT_GT(planned, 45);
    EXPECT_GE(optimal * 100, planned * 99);
  }
}

TEST(EvenTest, ChoosingRecomputeIsNeverWorseThanAnySingleMode) {
  int lower = 0;
  for (uint64_t seed = 3000; seed < 3100; ++seed) {
    PlanRequest request = testing::RandomRequest(seed, {16, 40});
    request = seed % 3 == 2 ? testing::AsVideo(request, seed)
                            : testing::WithRecomputeChoices(request);
    if (seed % 3 == 1) request = testing::WithSpModes(request, seed);
    request.options.work_budget = 2000;
    if (seed % 2 == 1) request.options.sync = SyncMode::kPerRound;
    const int64_t chosen_ns = StepNs(request, Policy::kEven);
    int64_t single_ns = INT64_MAX;
    for (const LayerCounts& layers : request.options.recompute_choices) {
      PlanRequest single = request;
      single.options.recompute_choices.clear();
      single.options.recompute_layers = layers;
      single_ns = std::min(single_ns, StepNs(single, Policy::kEven));
    }
    EXPECT_LE(chosen_ns, single_ns) << "seed " << seed;
    if (chosen_ns < single_ns) ++lower;
  }
  EXPECT_GT(lower, 1);
}

// 6 ranks, cap 4096, length 20,000.
TEST(EvenTest, ContiguousBlocksHoldWhatAlignedOnesCannot) {
  PlanRequest request = testing::SimpleRequest(6, 4096, {20000});
  request.model.forced_degrees = {1, 2, 4, 5};
  EXPECT_EQ(MakePlan(request).status().code(),
            absl::StatusCode::kFailedPrecondition);
  request.options.blocks = BlockShape::kContiguous;
  for (SyncMode sync : {SyncMode::kPerStep, SyncMode::kPerRound}) {
    request.options.sync = sync;
    auto plan = MakePlan(request);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->micro_batches[0].degree, 5);
  }
}

void ExpectNoOtherPolicyIsFaster(const PlanRequest& request, uint64_t seed) {
  const int64_t even_ns = StepNs(request, Policy::kEven);
  for (Policy policy : kOthers) {
    EXPECT_LE(even_ns, StepNs(request, policy)) << "seed " << seed;
  }
}

TEST(EvenTest, IsNeverSlowerThanAnotherPolicy) {
  for (uint64_t seed = 1000; seed < 1400; ++seed) {
    PlanRequest request = testing::RandomRequest(seed, {24, 60});
    if (seed % 2 == 1) request.options.sync = SyncMode::kPerRound;
    if (seed % 3 == 1) request.options.blocks = BlockShape::kContiguous;
    if (seed % 5 == 1) request = testing::WithRecomputeChoices(request);
    if (seed % 4 != 0) request.options.work_budget = 500;
    ExpectNoOtherPolicyIsFaster(request, seed);
  }
}

TEST(EvenTest, IsNeverSlowerOnVideoOrInAnyModeOfSequenceParallelism) {
  for (uint64_t seed = 1400; seed < 1600; ++seed) {
    PlanRequest request = testing::RandomRequest(seed, {16, 30});
    if (seed % 3 == 1) request.options.sync = SyncMode::kPerRound;
    if (seed % 5 == 1) request.options.blocks = BlockShape::kContiguous;
    request.options.work_budget = 500;
    request = seed % 2 == 0 ? testing::AsVideo(request, seed)
                            : testing::WithSpModes(request, seed);
    ExpectNoOtherPolicyIsFaster(request, seed);
  }
}

// One clip whose temporal layers take far longer than its spatial ones, and
// room for one of the two kinds only. Both ways recompute ten layers.
PlanRequest OneDearKindOfLayer() {
  PlanRequest request = testing::SimpleRequest(1, 0, {});
  request.samples = {{0, 64, 64, 4, 4, 4}};
  request.model.spatial_layers = request.model.temporal_layers = 10;
  request.time.spatial.linear_ns_per_token = 1000;
  request.time.temporal.linear_ns_per_token = 100'000;
  request.memory.spatial = request.memory.temporal = {30, 2};
  request.memory.activation_bytes = 64 * 350;
  // All are recomputed where nobody chooses.
  request.options.recompute_layers = {10, 10};
  request.options.recompute_choices = {{0, 0}, {10, 0}, {0, 10}, {10, 10}};
  return request;
}

TEST(EvenTest, TheKindOfLayerThatIsCheapToRecomputeIsRecomputed) {
  for (SyncMode sync : {SyncMode::kPerStep, SyncMode::kPerRound}) {
    PlanRequest request = OneDearKindOfLayer();
    request.options.sync = sync;
    for (Policy policy :
         {Policy::kBucketTuned, Policy::kDcpIntra, Policy::kEven}) {
      // 101,333 and a third a token.
      EXPECT_EQ(StepNs(request, policy), 64 * 304'000 / 3)
          << static_cast<int>(policy);
    }
  }
}

TEST(EvenTest, NobodyWaitsBetweenMicroBatches) {
  for (uint64_t seed = 2000; seed < 2200; ++seed) {
    const PlanRequest request = testing::RandomRequest(seed, {24, 60});
    auto plan = MakePlan(request);
    if (!plan.ok()) continue;
    const auto& busy = plan->rank_busy_ns;
    EXPECT_EQ(*std::max_element(busy.begin(), busy.end()),
              plan->predicted_step_ns)
        << "seed " << seed;
  }
}

TEST(EvenTest, FewerSamplesThanRanksSpreadOverWiderGroups) {
  for (int num_samples : {1, 2}) {
    const std::vector<int64_t> lengths(num_samples, 400);
    auto plan = MakePlan(testing::SimpleRequest(4, 1000, lengths));
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->predicted_step_ns, num_samples * 100'000'000);
  }
}

TEST(EvenTest, LongAndShortSamplesUseDifferentDegrees) {
  PlanRequest request = testing::SimpleRequest(
      4, 1000, {2000, 100, 100, 100, 100, 100, 100, 100, 100, 100});
  request.time.collective = {{2, 1e5}, {4, 2e5}};
  auto plan = MakePlan(request);
  ASSERT_TRUE(plan.ok());
  int widest = 0, narrowest = 4;
  for (const MicroBatch& batch : plan->micro_batches) {
    widest = std::max(widest, batch.degree);
    narrowest = std::min(narrowest, batch.degree);
  }
  EXPECT_GE(widest, 2);
  EXPECT_EQ(narrowest, 1);
}

TEST(EvenTest, ASlowRankGetsLess) {
  std::vector<int64_t> lengths(200, 10);
  PlanRequest request = testing::SimpleRequest(4, 100, lengths);
  request.cluster.rank_speed = {1, 1, 1, 0.75};
  auto plan = MakePlan(request);
  ASSERT_TRUE(plan.ok());
  // Ideal: 2000 tokens at 1 ms over a speed of 3.75.
  EXPECT_LE(plan->predicted_step_ns, 1.06 * 2000e6 / 3.75);
}

TEST(EvenTest, WorldsThatAreNoPowersOfTwoAreUsedWhole) {
  for (int world : {3, 5, 6, 7, 12, 24, 48, 96}) {
    std::vector<int64_t> lengths;
    for (int i = 0; i < 12 * world; ++i) lengths.push_back(20 + i * 37 % 150);
    auto plan = MakePlan(testing::SimpleRequest(world, 400, lengths));
    ASSERT_TRUE(plan.ok());
    EXPECT_LE(plan->predicted_step_ns, 1.03 * plan->lower_bound_ns) << world;
  }
}

// Plans are part of what a restart must repeat.
TEST(EvenTest, SameRequestGivesTheSameBytes) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const PlanRequest request = testing::RandomRequest(seed, {});
    auto first = MakePlan(request);
    auto second = MakePlan(request);
    ASSERT_EQ(first.ok(), second.ok());
    if (!first.ok()) continue;
    EXPECT_EQ(first->digest, second->digest);
  }
}

TEST(EvenTest, AllOf512SamplesArePlannedOnce) {
  std::vector<int64_t> lengths;
  for (int i = 0; i < 512; ++i) lengths.push_back(1 + i * i % 3001);
  const PlanRequest request = testing::SimpleRequest(8, 4000, lengths);
  auto plan = MakePlan(request);
  ASSERT_TRUE(plan.ok());
  std::vector<int> seen;
  for (const MicroBatch& batch : plan->micro_batches) {
    seen.insert(seen.end(), batch.samples.begin(), batch.samples.end());
  }
  std::sort(seen.begin(), seen.end());
  std::vector<int> all(512);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(seen, all);
}

// Fixed costs above the work of most samples: the cheapest degree of a single
// sample then says little, and a search that trusts it lost 29 % here.
TEST(EvenTest, LargeFixedCostsDoNotMisleadTheSearch) {
  PlanRequest request = testing::SimpleRequest(
      4, 1390, {28, 245, 271, 319, 151, 62, 115, 159, 274, 266, 452});
  request.cluster.rank_speed = {1, 0.75, 1.375, 1};
  request.time.micro_batch_fixed_ns = 34'000'000;
  request.time.linear_ns_per_token = 167'000;
  request.time.quadratic_ns_per_token2 = 19;
  auto plan = MakePlan(request);
  ASSERT_TRUE(plan.ok());
  EXPECT_LE(plan->predicted_step_ns, 1.2 * plan->lower_bound_ns);
}

TEST(EvenTest, AHundredThousandSamplesArePlannedInBoundedWork) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 100'000; ++i) lengths.push_back(1 + i * i % 997);
  PlanRequest request = testing::SimpleRequest(2, 1000, lengths);
  request.time.micro_batch_fixed_ns = 1000;
  auto plan = MakePlan(request);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(CheckPlan(request, *plan).ok());
  EXPECT_LE(plan->predicted_step_ns, 1.01 * plan->lower_bound_ns);
}

TEST(EvenTest, ThousandsOfRanksWithDearFixedCostsArePlannedToo) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 3000; ++i) lengths.push_back(1 + i * i % 997);
  PlanRequest request = testing::SimpleRequest(1000, 1000, lengths);
  request.time.micro_batch_fixed_ns = 100'000'000;
  auto plan = MakePlan(request);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(CheckPlan(request, *plan).ok());
}

TEST(EvenTest, NoWorkBudgetStillGivesAPlan) {
  std::vector<int64_t> lengths;
  for (int i = 0; i < 100; ++i) lengths.push_back(1 + i * 7 % 90);
  PlanRequest request = testing::SimpleRequest(4, 100, lengths);
  request.options.work_budget = 0;
  EXPECT_TRUE(MakePlan(request).ok());
}

}  // namespace
}  // namespace evenstep::planner
