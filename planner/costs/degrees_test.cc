#include "planner/costs/degrees.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "planner/costs/fits.h"
#include "planner/planner.h"
#include "planner/testing/random_request.h"

namespace evenstep::planner {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelShape Heads(int heads, int kv_heads) {
  ModelShape model;
  model.heads = heads;
  model.kv_heads = kv_heads;
  return model;
}

TEST(DegreesTest, FortyHeadsWithEightKvHeads) {
  std::vector<int> allowed;
  for (int degree = 1; degree <= 40; ++degree) {
    if (HeadsAllow(Heads(40, 8), degree)) allowed.push_back(degree);
  }
  EXPECT_THAT(allowed, ElementsAre(1, 2, 4, 8, 40));
  EXPECT_THAT(LegalDegreesFor(40, Heads(40, 8), BlockShape::kAligned),
              ElementsAre(1, 2, 4, 8, 40));
}

TEST(DegreesTest, TwelveHeadsSplitByFourAndTwentyEightNotByEight) {
  EXPECT_TRUE(HeadsAllow(Heads(12, 12), 4));
  EXPECT_FALSE(HeadsAllow(Heads(28, 4), 8));
  EXPECT_THAT(LegalDegreesFor(8, Heads(28, 4), BlockShape::kAligned),
              ElementsAre(1, 2, 4));
}

// Heads come with each request, nothing is remembered.
TEST(DegreesTest, TwoModelsNeverSeeEachOthersHeads) {
  PlanRequest first = testing::SimpleRequest(8, 100, {1});
  PlanRequest second = first;
  second.model = Heads(6, 6);
  EXPECT_THAT(LegalDegrees(first), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(LegalDegrees(second), ElementsAre(1, 2));
  EXPECT_THAT(LegalDegrees(first), ElementsAre(1, 2, 4, 8));
}

TEST(DegreesTest, AWorldThatIsNoPowerOfTwoIsABlockIfTheHeadsAllowIt) {
  EXPECT_THAT(LegalDegreesFor(6, Heads(12, 12), BlockShape::kAligned),
              ElementsAre(1, 2, 4, 6));
  EXPECT_THAT(LegalDegreesFor(6, Heads(16, 16), BlockShape::kAligned),
              ElementsAre(1, 2, 4));
  EXPECT_THAT(LegalDegreesFor(1, Heads(16, 16), BlockShape::kAligned),
              ElementsAre(1));
}

TEST(DegreesTest, ForcedDegreesReplaceTheHeadsButNotTheBlocks) {
  ModelShape model = Heads(7, 7);
  model.forced_degrees = {2, 3, 4, 8};
  EXPECT_THAT(LegalDegreesFor(8, model, BlockShape::kAligned),
              ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(LegalDegreesFor(3, model, BlockShape::kAligned),
              ElementsAre(1, 2, 3));
}

TEST(DegreesTest, OnSixRanksABlockOfFourLeavesTwo) {
  EXPECT_THAT(AlignedBlocks(6, 4), ElementsAre(Block{0, 4}));
  EXPECT_THAT(AlignedBlocks(6, 2),
              ElementsAre(Block{0, 2}, Block{2, 2}, Block{4, 2}));
  EXPECT_THAT(AlignedBlocks(6, 6), ElementsAre(Block{0, 6}));
}

TEST(DegreesTest, SevenTokensAtDegreeTwoArePaddedToEight) {
  EXPECT_EQ(PaddedTokens(7, 2), 8);
  EXPECT_EQ(PaddedTokens(8, 2), 8);
  auto request = testing::SimpleRequest(2, 4, {7});
  auto plan = MakePlan(request);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->micro_batches[0].padded_tokens, 8);
  EXPECT_EQ(plan->trained_tokens, 7);
  EXPECT_DOUBLE_EQ(plan->padding_ratio, 1.0 / 8);
}

// 9 tokens are 9 at degree 1, 10 at 2, 12 at 4; under a
// cap of 3 only degree 4 holds them, and 13 would need 16 of 12.
TEST(DegreesTest, PaddingAndMemoryFollowTheDegree) {
  auto plan = MakePlan(testing::SimpleRequest(4, 3, {9}));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->micro_batches[0].degree, 4);
  EXPECT_EQ(plan->micro_batches[0].padded_tokens, 12);
  EXPECT_EQ(MakePlan(testing::SimpleRequest(4, 3, {13})).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// One node of two heads' ranks.
PlanRequest Holding(int ranks, int64_t tokens_per_rank) {
  PlanRequest request;
  request.cluster.ranks_per_node = {ranks};
  request.model = Heads(2, 2);
  request.memory.tokens_per_rank = tokens_per_rank;
  return request;
}

TEST(DegreesTest, TwoRanksOfTenTokensTakeTwentyAndRefuseTwentyOne) {
  const PlanRequest request = Holding(2, 10);
  EXPECT_TRUE(CheckFits(20, request).ok());
  const absl::Status refused = CheckFits(21, request);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("21 tokens"), HasSubstr("2 x 10 = 20"),
                    HasSubstr("room on a rank for 11 tokens")));
}

TEST(DegreesTest, CheckFitsRefusesNonsenseWithoutOverflow) {
  for (int64_t tokens : {int64_t{0}, int64_t{-5}, INT64_MAX}) {
    EXPECT_EQ(CheckFits(tokens, Holding(2, 10)).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(CheckFits(10, Holding(2, tokens)).code(),
              absl::StatusCode::kInvalidArgument);
  }
  PlanRequest nowhere = Holding(2, 10);
  nowhere.cluster.ranks_per_node.clear();
  EXPECT_EQ(CheckFits(10, nowhere).code(), absl::StatusCode::kInvalidArgument);
}

// Aligned blocks.
TEST(DegreesTest, ALengthOfFiveRanksOnSixNeedsTheWholeWorld) {
  PlanRequest request = testing::SimpleRequest(6, 4096, {20000});
  request.model = Heads(12, 12);
  auto plan = MakePlan(request);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->micro_batches[0].degree, 6);
  request.model = Heads(16, 16);
  const absl::Status refused = MakePlan(request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("20000 tokens"), HasSubstr("4 x 4096 = 16384"),
                    HasSubstr("or at degree 8 on 8 ranks")));
}

TEST(DegreesTest, StaticDegreeFollowsTheRunNotTheStep) {
  PlanRequest request = testing::SimpleRequest(8, 100, {50, 60});
  EXPECT_EQ(*StaticDegree(request), 1);
  request.run.max_length = 350;
  EXPECT_EQ(*StaticDegree(request), 4);
}

TEST(DegreesTest, StaticDegreeMayBeAskedFor) {
  PlanRequest request = testing::SimpleRequest(8, 100, {50, 150});
  EXPECT_EQ(*StaticDegree(request), 2);
  request.options.static_degree = 8;
  EXPECT_EQ(*StaticDegree(request), 8);
  request.options.static_degree = 1;
  EXPECT_THAT(std::string(StaticDegree(request).status().message()),
              HasSubstr("needs a degree of 2"));
  request.options.static_degree = 3;
  EXPECT_THAT(std::string(StaticDegree(request).status().message()),
              AllOf(HasSubstr("static_degree is 3"), HasSubstr("legal")));
}

TEST(DegreesTest, RecomputeTradesBytesForTokens) {
  PlanRequest request = testing::SimpleRequest(2, 0, {1});
  request.model.num_layers = 4;
  request.memory = {.tokens_per_rank = 0,
                    .activation_bytes = 1'000'000,
                    .layer_bytes_per_token = 1000,
                    .kept_bytes_per_token = 100,
                    .head_bytes_per_token = 500};
  EXPECT_EQ(TokensPerRank(request, 0), 222);  // 4 layers and the head
  EXPECT_EQ(TokensPerRank(request, 1), 277);  // 3 layers, an input, the head
  // 4 inputs and one layer; the head is gone by then.
  EXPECT_EQ(TokensPerRank(request, 4), 714);
  request.options.recompute_choices = {4, 2, 4};
  EXPECT_THAT(RecomputeModes(request), ElementsAre(0, 2, 4));
  EXPECT_EQ(MostTokensPerRank(request), 714);
  request.memory.tokens_per_rank = 7;  // beats the bytes
  EXPECT_EQ(TokensPerRank(request, 4), 7);
}

}  // namespace
}  // namespace evenstep::planner
