// The same plans in every build: digests of the plans of a fixed set of
// requests against recorded ones. Runs in every build that runs tests (release,
// sanitizers) and, with other compilers and flags, in .ci/clang.sh and
// .ci/golden_plans.sh. Who changes a policy on purpose records anew: a failure
// prints the new value.

#include <gtest/gtest.h>

#include <cstdint>

#include "planner/costs/degrees.h"
#include "planner/planner.h"
#include "planner/policies/reference_rules.h"
#include "planner/testing/random_request.h"

namespace evenstep::planner {
namespace {

constexpr Policy kPolicies[] = {
    Policy::kStatic,      Policy::kBalanced, Policy::kPacked,   Policy::kBucket,
    Policy::kBucketTuned, Policy::kDcpInter, Policy::kDcpIntra, Policy::kEven};

// Made of integers and written numbers alone: the request must not depend on
// the build either.
PlanRequest RecordedRequest() {
  PlanRequest request = testing::SimpleRequest(8, 5000, {});
  for (int64_t i = 0; i < 300; ++i) {
    const int64_t length = 1 + i * i * i % 4999 * (i % 9 == 0 ? 5 : 1);
    request.samples.push_back({i, length, length});
  }
  request.time.linear_ns_per_token = 183960.7;
  request.time.quadratic_ns_per_token2 = 5.1283;
  request.time.micro_batch_fixed_ns = 1'000'000;
  request.time.collective = {{2, 16730.1}, {4, 19217.7}, {8, 20725.3}};
  return request;
}

uint64_t Mixed(uint64_t digests, const Plan& plan) {
  return digests * 31 + plan.digest +
         static_cast<uint64_t>(plan.predicted_step_ns);
}

// Of one policy, under both syncs.
uint64_t DigestsOf(PlanRequest request, Policy policy) {
  uint64_t digests = 0;
  request.options.policy = policy;
  for (SyncMode sync : {SyncMode::kPerStep, SyncMode::kPerRound}) {
    request.options.sync = sync;
    auto plan = MakePlan(request);
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (plan.ok()) digests = Mixed(digests, *plan);
  }
  return digests;
}

uint64_t DigestsOf(const PlanRequest& request) {
  uint64_t digests = 0;
  for (Policy policy : kPolicies) {
    digests = digests * 31 + DigestsOf(request, policy);
  }
  return digests;
}

TEST(GoldenPlansTest, AlignedBlocks) {
  EXPECT_EQ(DigestsOf(RecordedRequest()), 9315910409106379514u);
}

// Long samples fit three ranks, which no aligned block has, and the one block
// of four leaves two ranks over.
TEST(GoldenPlansTest, ContiguousBlocks) {
  PlanRequest aligned = RecordedRequest();
  aligned.cluster.ranks_per_node = {6};
  aligned.model.forced_degrees = {1, 2, 3, 4};
  aligned.samples.resize(8);
  for (int i = 0; i < 8; ++i) {
    Sample& sample = aligned.samples[i];
    sample.length = i < 4 ? 14'000 - 300 * i : 1 + i * i * i % 3001;
    sample.trained_tokens = sample.length;
  }
  PlanRequest contiguous = aligned;
  contiguous.options.blocks = BlockShape::kContiguous;
  EXPECT_NE(DigestsOf(contiguous, Policy::kEven),
            DigestsOf(aligned, Policy::kEven));
  EXPECT_EQ(DigestsOf(contiguous), 6005375920031466419u);
}

TEST(GoldenPlansTest, SlowRanks) {
  PlanRequest slow = RecordedRequest();
  slow.cluster.rank_speed = {1, 1, 0.8, 1, 1.1, 1, 0.95, 1};
  EXPECT_EQ(DigestsOf(slow), 6961876466881386988u);
}

TEST(GoldenPlansTest, AnOddWorld) {
  PlanRequest odd_world = RecordedRequest();
  odd_world.cluster.ranks_per_node = {6, 5};
  EXPECT_EQ(DigestsOf(odd_world), 3203012899146659774u);
}

TEST(GoldenPlansTest, RecomputeChosenInEveryMicroBatch) {
  PlanRequest chosen = RecordedRequest();
  chosen.model.num_layers = 24;
  chosen = testing::WithRecomputeChoices(chosen);
  EXPECT_EQ(DigestsOf(chosen), 7697337008209377205u);
}

TEST(GoldenPlansTest, GatheredKeysAndValues) {
  PlanRequest gathering = RecordedRequest();
  gathering.model.heads = gathering.model.kv_heads = 2;
  gathering.model.sp_modes = {SpMode::kUlysses, SpMode::kBoth,
                              SpMode::kKvGather};
  gathering.time.gather = {{2, 9021.3}, {4, 11700.9}, {8, 13004.2}};
  gathering.time.collective_latency_ns = 41'000;
  EXPECT_EQ(DigestsOf(gathering), 16987497737630069327u);
}

TEST(GoldenPlansTest, Video) {
  EXPECT_EQ(DigestsOf(testing::AsVideo(RecordedRequest(), 4)),
            17809201491388131760u);
}

TEST(GoldenPlansTest, PublishedRules) {
  PlanRequest rounds = RecordedRequest();
  rounds.options.sync = SyncMode::kPerRound;
  uint64_t digests = 0;
  for (const ReferenceRow& row : ReferenceRules()) {
    auto plan = MakeReferencePlan(rounds, row.rule);
    ASSERT_TRUE(plan.ok()) << plan.status();
    digests = Mixed(digests, *plan);
  }
  EXPECT_EQ(digests, 10466777699911157840u);
}

}  // namespace
}  // namespace evenstep::planner
