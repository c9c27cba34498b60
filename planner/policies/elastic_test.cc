#include "planner/policies/elastic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "planner/planner.h"
#include "planner/policies/elastic_draws.h"
#include "planner/testing/random_request.h"

namespace evenstep::planner {
namespace {

constexpr Policy kPolicies[] = {Policy::kBucket, Policy::kPacked,
                                Policy::kDcpInter, Policy::kDcpIntra};

PlanRequest Pool(int num_samples) {
  std::vector<int64_t> lengths;
  for (int i = 0; i < num_samples; ++i) {
    lengths.push_back(20 + (i * 37) % 80 + (i % 9 == 0 ? 300 : 0));
  }
  PlanRequest pool = testing::SimpleRequest(8, 100, lengths);
  pool.time.collective = {{2, 1e5}, {4, 3e5}, {8, 5e5}};
  pool.time.micro_batch_fixed_ns = 5'000'000;
  return pool;
}

// Runs through the pool; the ids in the order in which they were drawn.
std::vector<int64_t> RunThrough(PlanRequest pool, const ElasticOptions& asked,
                                int* num_steps) {
  ElasticOptions options = asked;
  std::vector<int64_t> ids;
  for (options.step = 0; !pool.samples.empty(); ++options.step) {
    const auto step = DrawElasticStep(pool, options);
    if (!step.ok()) {
      ADD_FAILURE() << step.status();
      break;
    }
    const absl::Status verdict = CheckElasticStep(pool, *step);
    EXPECT_TRUE(verdict.ok()) << verdict;
    for (const Sample& sample : step->request.samples) ids.push_back(sample.id);
    pool.samples = step->carried_over;
  }
  *num_steps = static_cast<int>(options.step);
  return ids;
}

TEST(ElasticTest, EverySampleOfThePoolRunsOnceAndNoneIsLost) {
  for (Policy policy : kPolicies) {
    for (Accumulation accumulation :
         {Accumulation::kNone, Accumulation::kMatched}) {
      for (SyncMode sync : {SyncMode::kPerStep, SyncMode::kPerRound}) {
        PlanRequest pool = Pool(300);
        pool.options.policy = policy;
        pool.options.sync = sync;
        int num_steps = 0;
        const auto ids = RunThrough(
            pool, {.seed = 3, .step = 0, .accumulation = accumulation},
            &num_steps);
        EXPECT_EQ(ids.size(), 300u);
        EXPECT_EQ(std::set<int64_t>(ids.begin(), ids.end()).size(), 300u);
        EXPECT_GT(num_steps, 5);
      }
    }
  }
}

TEST(ElasticTest, ADrawDependsOnSeedAndStepAlone) {
  PlanRequest pool = Pool(300);
  pool.options.policy = Policy::kDcpInter;
  const auto first = *DrawElasticStep(pool, {.seed = 1, .step = 4});
  EXPECT_EQ(DrawElasticStep(pool, {.seed = 1, .step = 4})->plan.digest,
            first.plan.digest);
  EXPECT_NE(DrawElasticStep(pool, {.seed = 2, .step = 4})->plan.digest,
            first.plan.digest);
  EXPECT_NE(DrawElasticStep(pool, {.seed = 1, .step = 5})->plan.digest,
            first.plan.digest);
}

TEST(ElasticTest, StreamsOfNeighbouringSeedsAndStepsShareNoDraw) {
  std::set<int64_t> seen;
  size_t num_draws = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (int64_t step = 0; step < 8; ++step) {
      ElasticDraws draws(seed, step);
      for (int n = 0; n < 500; ++n, ++num_draws) {
        seen.insert(draws.Below(int64_t{1} << 62));
      }
    }
  }
  EXPECT_EQ(seen.size(), num_draws);
}

TEST(ElasticTest, WithoutAccumulationEveryRankRunsAtMostOneMicroBatch) {
  PlanRequest pool = Pool(300);
  pool.options.policy = Policy::kDcpInter;
  std::vector<int> runs(8, 0);
  const auto step = *DrawElasticStep(
      pool, {.seed = 1, .step = 0, .accumulation = Accumulation::kNone});
  for (const MicroBatch& batch : step.plan.micro_batches) {
    for (int i = 0; i < batch.degree; ++i) ++runs[batch.first_rank + i];
  }
  EXPECT_THAT(runs, ::testing::Each(1));
}

TEST(ElasticTest, AccumulationEndsNoLaterThanTheSlowestGroupByTheProfile) {
  PlanRequest pool = Pool(400);
  pool.options.policy = Policy::kDcpIntra;
  for (int64_t step = 0; step < 10; ++step) {
    ElasticOptions options{.seed = 7, .step = step};
    const auto matched = *DrawElasticStep(pool, options);
    options.accumulation = Accumulation::kNone;
    const auto one = *DrawElasticStep(pool, options);
    EXPECT_GE(matched.request.samples.size(), one.request.samples.size());
  }
}

TEST(ElasticTest, VideoPoolsAreDrawnByFramesAndResolution) {
  int drawn = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    PlanRequest pool =
        testing::AsVideo(testing::RandomRequest(seed, {8, 60}), seed);
    pool.options.policy = kPolicies[seed % 4];
    const auto step = DrawElasticStep(pool, {.seed = seed, .step = 0});
    if (!step.ok()) {
      EXPECT_EQ(step.status().code(), absl::StatusCode::kFailedPrecondition)
          << step.status();
      continue;
    }
    ++drawn;
    EXPECT_TRUE(CheckElasticStep(pool, *step).ok())
        << CheckElasticStep(pool, *step);
  }
  EXPECT_GT(drawn, 80);
}

TEST(ElasticTest, PoliciesThatTakeTheBatchAsItIsAreRefused) {
  PlanRequest pool = Pool(10);
  pool.options.policy = Policy::kEven;
  const absl::Status refused = DrawElasticStep(pool, {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("'even'"));
}

TEST(ElasticTest, LostDoubledAndForeignSamplesAreCaught) {
  PlanRequest pool = Pool(300);
  pool.options.policy = Policy::kBucket;
  const auto good = *DrawElasticStep(pool, {});
  ASSERT_TRUE(CheckElasticStep(pool, good).ok());
  ElasticStep lost = good;
  lost.carried_over.pop_back();
  ElasticStep doubled = good;
  doubled.carried_over.push_back(doubled.request.samples[0]);
  ElasticStep foreign = good;
  ++foreign.carried_over[0].length;
  ElasticStep unplanned = good;
  unplanned.plan.micro_batches.pop_back();
  for (const ElasticStep* step : {&lost, &doubled, &foreign, &unplanned}) {
    EXPECT_EQ(CheckElasticStep(pool, *step).code(),
              absl::StatusCode::kInternal);
  }
}

// Each passes CheckPlan: the plan is good for the request that it came with.
TEST(ElasticTest, AStepThatAsksForSomethingElseThanThePoolIsCaught) {
  const std::function<void(PlanRequest&)> kChanges[] = {
      [](PlanRequest& pool) { pool.memory.tokens_per_rank *= 2; },
      [](PlanRequest& pool) { pool.time.linear_ns_per_token += 1; },
      [](PlanRequest& pool) { pool.time.collective[0].ns_per_token += 1; },
      [](PlanRequest& pool) { pool.model.heads *= 2; },
      [](PlanRequest& pool) {
        pool.cluster.ranks_per_node = {4, 4};
      },
      [](PlanRequest& pool) { pool.run.max_length = 700; },
      [](PlanRequest& pool) { pool.options.work_budget += 1; }};
  PlanRequest pool = Pool(300);
  pool.options.policy = Policy::kBucket;
  for (const auto& change : kChanges) {
    PlanRequest other = pool;
    change(other);
    const auto step = *DrawElasticStep(other, {});
    ASSERT_TRUE(CheckElasticStep(other, step).ok());
    EXPECT_EQ(CheckElasticStep(pool, step).code(), absl::StatusCode::kInternal)
        << "change " << &change - kChanges;
  }
}

TEST(ElasticTest, AStepIsDrawnOnUntilItHoldsATrainedToken) {
  for (Policy policy : kPolicies) {
    for (SyncMode sync : {SyncMode::kPerStep, SyncMode::kPerRound}) {
      PlanRequest pool = Pool(300);
      pool.options.policy = policy;
      pool.options.sync = sync;
      for (Sample& sample : pool.samples) sample.trained_tokens = 0;
      pool.samples.back().trained_tokens = 1;
      for (uint64_t seed = 0; seed < 10; ++seed) {
        const auto step = DrawElasticStep(pool, {.seed = seed});
        ASSERT_TRUE(step.ok()) << step.status();
        EXPECT_EQ(step->plan.trained_tokens, 1);
        const absl::Status verdict = CheckElasticStep(pool, *step);
        EXPECT_TRUE(verdict.ok()) << verdict;
      }
    }
  }
}

TEST(ElasticTest, APoolWithoutATrainedTokenIsRefused) {
  PlanRequest pool = Pool(30);
  pool.options.policy = Policy::kBucket;
  for (Sample& sample : pool.samples) sample.trained_tokens = 0;
  const absl::Status refused = DrawElasticStep(pool, {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              ::testing::HasSubstr("no token of the step's 30 samples"));
}

}  // namespace
}  // namespace evenstep::planner
