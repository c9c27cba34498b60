#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "planner/planner.h"
#include "planner/policies/buckets.h"
#include "planner/testing/checked_plan.h"
#include "planner/testing/random_request.h"

namespace evenstep::planner {
namespace {

using ::testing::ElementsAre;
using testing::PlanWith;

TEST(BucketsTest, SamplesAreDividedByPowersOfTwoLongestFirst) {
  const auto buckets =
      DivideIntoBuckets(testing::SimpleRequest(4, 1000, {5, 100, 8, 65}));
  ASSERT_EQ(buckets.size(), 2u);
  EXPECT_EQ(buckets[0].profiled.length, 100);  // not 128: nothing is longer
  EXPECT_THAT(buckets[0].samples, ElementsAre(1, 3));
  EXPECT_EQ(buckets[1].profiled.length, 8);
  EXPECT_THAT(buckets[1].samples, ElementsAre(0, 2));
}

TEST(BucketsTest, BoundsOfTheRunAreUsed) {
  PlanRequest request = testing::SimpleRequest(4, 1000, {5, 100, 8, 65});
  request.run.bucket_bounds = {70, 500};
  request.run.max_length = 600;
  const auto buckets = DivideIntoBuckets(request);
  ASSERT_EQ(buckets.size(), 2u);
  EXPECT_EQ(buckets[0].profiled.length, 500);
  EXPECT_THAT(buckets[1].samples, ElementsAre(0, 2, 3));
}

TEST(BucketPoliciesTest, BucketNeverMixesBucketsAndKeepsOneDegree) {
  const Plan plan =
      PlanWith(Policy::kBucket,
               testing::SimpleRequest(4, 100, {150, 10, 12, 9, 140, 90, 11}));
  for (const MicroBatch& batch : plan.micro_batches) {
    EXPECT_EQ(batch.degree, 2);
    for (int index : batch.samples) {
      const bool is_short = batch.samples[0] != 0 && batch.samples[0] != 4 &&
                            batch.samples[0] != 5;
      EXPECT_EQ(is_short, index != 0 && index != 4 && index != 5);
    }
  }
}

TEST(BucketPoliciesTest, DcpInterGivesShortBucketsNarrowGroups) {
  PlanRequest request = testing::SimpleRequest(
      8, 100, {390, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60});
  request.time.collective = {{2, 3e5}, {4, 5e5}, {8, 7e5}};
  const Plan plan = PlanWith(Policy::kDcpInter, request);
  for (const MicroBatch& batch : plan.micro_batches) {
    EXPECT_EQ(batch.degree, batch.samples[0] == 0 ? 4 : 1);
  }
}

// More degrees to choose from are no disadvantage.
TEST(BucketPoliciesTest, ContiguousBlocksAreNeverSlowerThanAlignedOnes) {
  int faster = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    PlanRequest request = testing::RandomRequest(seed, {64, 60});
    request.model.forced_degrees.clear();
    for (int degree = 1; degree <= 64; ++degree) {
      request.model.forced_degrees.push_back(degree);
    }
    for (Policy policy : {Policy::kDcpInter, Policy::kDcpIntra}) {
      request.options.policy = policy;
      request.options.blocks = BlockShape::kAligned;
      if (!MakePlan(request).ok()) continue;
      const Plan aligned = PlanWith(policy, request);
      request.options.blocks = BlockShape::kContiguous;
      const Plan contiguous = PlanWith(policy, request);
      EXPECT_LE(contiguous.predicted_step_ns, aligned.predicted_step_ns)
          << seed;
      if (contiguous.predicted_step_ns < aligned.predicted_step_ns) ++faster;
    }
  }
  EXPECT_GT(faster, 10);
}

// By rank-time alone 5 ranks would be best, of which 12 groups leave 4 idle; 7
// of 9 ranks leave one, and hold twice as many samples.
TEST(BucketPoliciesTest, ContiguousGroupsLeaveHardlyARankIdle) {
  PlanRequest request =
      testing::SimpleRequest(64, 10, std::vector<int64_t>(640, 45));
  request.time.collective = {{2, 1e5}, {4, 2e5}, {64, 3e5}};
  for (int degree = 1; degree <= 64; ++degree) {
    request.model.forced_degrees.push_back(degree);
  }
  request.options.blocks = BlockShape::kContiguous;
  const Plan plan = PlanWith(Policy::kDcpInter, request);
  EXPECT_LE(std::count(plan.rank_busy_ns.begin(), plan.rank_busy_ns.end(), 0),
            1);
}

TEST(BucketPoliciesTest, DcpInterSaysHowManyGroupsItNeeds) {
  PlanRequest request =
      testing::SimpleRequest(8, 100, {390, 390, 120, 120, 120, 120});
  request.time.collective = {{2, 3e5}, {4, 5e5}, {8, 7e5}};
  request.options.policy = Policy::kDcpInter;
  ASSERT_TRUE(MakePlan(request).ok());
  request.options.max_groups_per_rank = 1;
  EXPECT_EQ(MakePlan(request).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// The published draw counts buckets, not their rank-time, and lets samples
// that do not divide evenly fall out; here all are run, on all ranks.
TEST(BucketPoliciesTest, DcpInterUsesAllRanksAndDropsNothing) {
  std::vector<int64_t> lengths(37, 60);
  const Plan plan =
      PlanWith(Policy::kDcpInter, testing::SimpleRequest(4, 100, lengths));
  size_t samples = 0;
  for (const MicroBatch& batch : plan.micro_batches) {
    samples += batch.samples.size();
  }
  EXPECT_EQ(samples, lengths.size());
  for (int64_t busy_ns : plan.rank_busy_ns) EXPECT_GT(busy_ns, 0);
}

TEST(BucketPoliciesTest, DcpIntraRecomputesOnlyWhereMemoryAsksForIt) {
  PlanRequest request = testing::SimpleRequest(2, 100, {380, 50, 50, 50});
  request.model.num_layers = 8;
  request.time.micro_batch_fixed_ns = 1'000'000;
  request = testing::WithRecomputeChoices(request);
  const Plan plan = PlanWith(Policy::kDcpIntra, request);
  int recomputed = 0;
  for (const MicroBatch& batch : plan.micro_batches) {
    if (batch.recompute_layers == 0) continue;
    ++recomputed;
    EXPECT_EQ(batch.samples, std::vector<int>{0});
  }
  EXPECT_EQ(recomputed, 1);
}

}  // namespace
}  // namespace evenstep::planner
