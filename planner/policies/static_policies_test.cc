#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "planner/planner.h"
#include "planner/testing/checked_plan.h"
#include "planner/testing/random_request.h"

namespace evenstep::planner {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PlanWith;
using ::testing::UnorderedElementsAre;

// First rank and samples of every micro-batch, in order.
std::vector<std::pair<int, std::vector<int>>> Layout(const Plan& plan) {
  std::vector<std::pair<int, std::vector<int>>> layout;
  for (const MicroBatch& batch : plan.micro_batches) {
    layout.push_back({batch.first_rank, batch.samples});
  }
  return layout;
}

using Batch = std::pair<int, std::vector<int>>;

TEST(StaticPoliciesTest, StaticDealsByPositionAndPacksNextFit) {
  const Plan plan = PlanWith(Policy::kStatic,
                             testing::SimpleRequest(2, 10, {6, 5, 5, 5, 4, 1}));
  EXPECT_THAT(Layout(plan), ElementsAre(Batch{0, {0}}, Batch{1, {1, 3}},
                                        Batch{0, {2, 4}}, Batch{1, {5}}));
}

TEST(StaticPoliciesTest, StaticUsesTheDegreeThatTheRunsLongestNeeds) {
  PlanRequest request = testing::SimpleRequest(4, 10, {3, 3, 3});
  request.run.max_length = 20;
  const Plan plan = PlanWith(Policy::kStatic, request);
  EXPECT_THAT(Layout(plan), ElementsAre(Batch{0, {0, 2}}, Batch{2, {1}}));
  EXPECT_EQ(plan.micro_batches[0].degree, 2);
}

TEST(StaticPoliciesTest, BalancedDealsTheDearestFirstTiesById) {
  PlanRequest request = testing::SimpleRequest(2, 10, {4, 7, 4, 3});
  request.samples[2].id = -1;  // before sample 0
  const Plan plan = PlanWith(Policy::kBalanced, request);
  // 7 -> 0; 4 (id -1) -> 1; 4 (id 0) -> 1; 3 -> 0.
  EXPECT_THAT(Layout(plan), ElementsAre(Batch{0, {1, 3}}, Batch{1, {2, 0}}));
}

TEST(StaticPoliciesTest, PackedFillsFirstFitDecreasingAndDealsBins) {
  const Plan plan = PlanWith(Policy::kPacked,
                             testing::SimpleRequest(2, 10, {6, 5, 4, 3, 2, 9}));
  // Bins: {9}, {6, 4}, {5, 3, 2}.
  EXPECT_THAT(Layout(plan), ElementsAre(Batch{0, {5}}, Batch{1, {0, 2}},
                                        Batch{0, {1, 3, 4}}));
}

TEST(StaticPoliciesTest, OnSixRanksAtDegreeFourTwoRanksIdle) {
  PlanRequest request = testing::SimpleRequest(6, 10, {35, 5});
  const Plan plan = PlanWith(Policy::kStatic, request);
  for (const MicroBatch& batch : plan.micro_batches) {
    EXPECT_EQ(batch.first_rank, 0);
    EXPECT_EQ(batch.degree, 4);
  }
  EXPECT_EQ(plan.rank_busy_ns[4], 0);
  EXPECT_NEAR(plan.predicted_imbalance, 1.0 / 3, 1e-9);
}

// Degree 5 holds the longest, but 12 such groups leave 4 of 64 ranks idle.
TEST(StaticPoliciesTest, WithContiguousBlocksTheOneDegreeLeavesFewRanksIdle) {
  PlanRequest request =
      testing::SimpleRequest(64, 10, std::vector<int64_t>(64, 45));
  for (int degree = 1; degree <= 64; ++degree) {
    request.model.forced_degrees.push_back(degree);
  }
  request.options.blocks = BlockShape::kContiguous;
  for (Policy policy : {Policy::kStatic, Policy::kBalanced, Policy::kPacked,
                        Policy::kBucket, Policy::kBucketTuned}) {
    const Plan plan = PlanWith(policy, request);
    for (const MicroBatch& batch : plan.micro_batches) {
      EXPECT_EQ(batch.degree, 8);
    }
    EXPECT_NEAR(plan.predicted_imbalance, 0, 1e-9) << PolicyName(policy);
  }
  // Where none divides it, that which leaves the fewest.
  request.cluster.ranks_per_node = {61};
  request.model.forced_degrees = {1, 5, 7};
  EXPECT_EQ(PlanWith(Policy::kStatic, request).micro_batches[0].degree, 5);
}

// 31 of 62 and 7 of 7 ranks would all be busy, in groups that are far wider
// than the samples need.
TEST(StaticPoliciesTest, WithContiguousBlocksTheOneDegreeIsNotAbsurdlyWide) {
  struct Case {
    int num_ranks, needed, degree;
  };
  for (const Case& c : {Case{62, 3, 3}, Case{62, 4, 4}, Case{7, 2, 2},
                        Case{64, 5, 8}, Case{64, 9, 16}, Case{11, 3, 5}}) {
    PlanRequest request =
        testing::SimpleRequest(c.num_ranks, 10, {10 * c.needed - 5});
    for (int degree = 1; degree <= c.num_ranks; ++degree) {
      request.model.forced_degrees.push_back(degree);
    }
    request.options.blocks = BlockShape::kContiguous;
    const Plan plan = PlanWith(Policy::kStatic, request);
    ASSERT_EQ(plan.micro_batches.size(), 1u);
    EXPECT_EQ(plan.micro_batches[0].degree, c.degree)
        << c.needed << " on " << c.num_ranks;
  }
}

TEST(StaticPoliciesTest, EightSamplesOfSevenUnderACapOfEightAreEightBatches) {
  const std::vector<int64_t> lengths(8, 7);
  for (Policy policy :
       {Policy::kStatic, Policy::kBalanced, Policy::kPacked, Policy::kEven}) {
    PlanRequest request = testing::SimpleRequest(2, 8, lengths);
    request.model.heads = request.model.kv_heads = 1;
    EXPECT_EQ(PlanWith(policy, request).micro_batches.size(), 8u);
  }
}

TEST(StaticPoliciesTest, SixteenSamplesNearTheCapAreSixteenBatches) {
  const std::vector<int64_t> lengths(16, 30720);
  for (Policy policy :
       {Policy::kStatic, Policy::kBalanced, Policy::kPacked, Policy::kEven}) {
    PlanRequest request = testing::SimpleRequest(4, 32768, lengths);
    request.model.heads = request.model.kv_heads = 1;
    const Plan plan = PlanWith(policy, request);
    EXPECT_EQ(plan.micro_batches.size(), 16u);
    for (const MicroBatch& batch : plan.micro_batches) {
      EXPECT_EQ(batch.padded_tokens, 30720);
    }
  }
}

TEST(StaticPoliciesTest, AFirstSampleAboveCapacityIsNamed) {
  for (Policy policy :
       {Policy::kStatic, Policy::kBalanced, Policy::kPacked, Policy::kEven}) {
    PlanRequest request = testing::SimpleRequest(4, 4096, {9000, 100, 100});
    request.model.heads = request.model.kv_heads = 2;
    request.samples[0].id = 42;
    request.options.policy = policy;
    const absl::Status status = MakePlan(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("sample 42"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("2 x 4096 = 8192"));
  }
}

TEST(StaticPoliciesTest, ExactlyRanksTimesCapPlansAndOneMoreIsRefused) {
  for (Policy policy :
       {Policy::kStatic, Policy::kBalanced, Policy::kPacked, Policy::kEven}) {
    PlanRequest request = testing::SimpleRequest(4, 100, {400, 400});
    EXPECT_EQ(PlanWith(policy, request).micro_batches.size(), 2u);
    request.samples[0].length = 401;
    request.options.policy = policy;
    EXPECT_EQ(MakePlan(request).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

TEST(StaticPoliciesTest, EvenPlansAStepThatFitsThoughTheRunMightNot) {
  PlanRequest request = testing::SimpleRequest(2, 10, {5, 5});
  request.run.max_length = 1000;
  PlanWith(Policy::kEven, request);
  request.options.policy = Policy::kStatic;
  EXPECT_THAT(std::string(MakePlan(request).status().message()),
              HasSubstr("run.max_length"));
}

// The share of every micro-batch in the gradient, in the plan's order.
std::vector<double> WeightsOf(const PlanRequest& request, const Plan& plan) {
  std::vector<double> weights;
  for (const MicroBatch& batch : plan.micro_batches) {
    int64_t trained = 0;
    for (int index : batch.samples) {
      trained += request.samples[index].trained_tokens;
    }
    weights.push_back(static_cast<double>(trained) /
                      static_cast<double>(plan.trained_tokens));
  }
  return weights;
}

// 10 and 100 trained tokens weigh 1/11 and 10/11, on one
// rank one after the other as on two at once; not a half each.
TEST(StaticPoliciesTest, TheWeightOfAMicroBatchIsItsShareOfTheTokens) {
  for (int num_ranks : {1, 2}) {
    PlanRequest request = testing::SimpleRequest(num_ranks, 101, {11, 101});
    request.samples[0].trained_tokens = 10;
    request.samples[1].trained_tokens = 100;
    const Plan plan = PlanWith(Policy::kStatic, request);
    EXPECT_THAT(WeightsOf(request, plan),
                ElementsAre(DoubleEq(1.0 / 11), DoubleEq(10.0 / 11)));
  }
}

// Five samples of 95 on one rank and five of 20 on another
// weigh 95/575 each and 100/575 together.
TEST(StaticPoliciesTest, TheWeightsDoNotDependOnTheAccumulation) {
  const PlanRequest request =
      testing::SimpleRequest(2, 100, {95, 20, 95, 20, 95, 20, 95, 20, 95, 20});
  const Plan plan = PlanWith(Policy::kStatic, request);
  const auto own = DoubleEq(95.0 / 575);
  EXPECT_THAT(
      WeightsOf(request, plan),
      UnorderedElementsAre(own, own, own, own, own, DoubleEq(100.0 / 575)));
}

TEST(StaticPoliciesTest, PolicyNamesGoBothWays) {
  for (Policy policy :
       {Policy::kStatic, Policy::kBalanced, Policy::kPacked, Policy::kEven}) {
    EXPECT_EQ(*ParsePolicy(PolicyName(policy)), policy);
  }
  const absl::Status status = ParsePolicy("fast").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("static, balanced, packed, even"));
}

}  // namespace
}  // namespace evenstep::planner
