#include "planner/costs/sample_size.h"

#include <gtest/gtest.h>

#include "planner/costs/cost_model.h"
#include "planner/costs/degrees.h"
#include "planner/costs/fits.h"
#include "planner/costs/memory_model.h"
#include "planner/limits.h"
#include "planner/planner.h"
#include "planner/testing/random_request.h"
#include "planner/validate.h"

namespace evenstep::planner {
namespace {

// A clip of 10 frames of 6 patches on a model of 3 spatial and 2 temporal
// layers; every coefficient its own digit, so that a missing term shows.
PlanRequest Video() {
  PlanRequest request = testing::SimpleRequest(4, 1000, {60});
  request.samples[0].frames = 10;
  request.samples[0].height = 2;
  request.samples[0].width = 3;
  request.model.spatial_layers = 3;
  request.model.temporal_layers = 2;
  request.time.linear_ns_per_token = 1e9;  // text: not read
  request.time.micro_batch_fixed_ns = 1'000'000;
  request.time.spatial = {100, 2, 0, 0};
  request.time.temporal = {30, 5, 0, 0};
  request.time.collective = {{2, 40}, {4, 80}};
  request.time.collective_latency_ns = 10'000;
  request.time.head_ns_per_token = 7;
  return request;
}

TEST(SampleSizeTest, SwitchPadsTheShardedSideThatPadsMore) {
  const PlanRequest request = Video();
  const SequenceSplit split = SplitFor(request.model, 4);
  ASSERT_EQ(split.mode, SpMode::kSwitch);
  const BatchSize size = SizeOf(request.model, split, request.samples[0]);
  EXPECT_EQ(size.tokens, 80);  // 12 x 6 = 72, or 10 x 8
  EXPECT_EQ(size.pairs[0], 12 * 6 * 6);
  EXPECT_EQ(size.pairs[1], 8 * 10 * 10);
}

TEST(SampleSizeTest, FewerFramesOrPatchesThanRanksAreNotShared) {
  PlanRequest request = Video();
  EXPECT_TRUE(CanShare(SplitFor(request.model, 6), request.samples[0]));
  EXPECT_FALSE(CanShare(SplitFor(request.model, 8), request.samples[0]));
  // Unless wide degrees go by heads.
  request.model.sp_modes = {SpMode::kSwitch, SpMode::kUlysses};
  request.model.max_switch_degree = 4;
  EXPECT_TRUE(CanShare(SplitFor(request.model, 8), request.samples[0]));
  EXPECT_EQ(SplitFor(request.model, 8).mode, SpMode::kUlysses);
}

TEST(SampleSizeTest, VideoTimeIsTheSumOfItsKindsHeadAndSwitches) {
  const PlanRequest request = Video();
  const CostModel costs(request, LayerCounts(3, 1));
  // Spatial layers are recomputed, and half of the temporal ones.
  const int64_t spatial = (2 * 360 + 100 * 60) * 4 / 3;
  const int64_t temporal = (5 * 600 + 30 * 60) * 7 / 6;
  EXPECT_EQ(costs.MicroBatchNs({1}, costs.SizeAt(1, request.samples[0])),
            1'000'000 + spatial + temporal + 7 * 60);
  // At degree 2 nothing pads; (2 x 5 + 4) switches, and 60 tokens at 40 ns, 14
  // of 10 passes.
  EXPECT_EQ(costs.MicroBatchNs({2}, costs.SizeAt(2, request.samples[0])),
            1'000'000 + (spatial + temporal + 7 * 60) / 2 + 14 * 10'000 +
                60 * 40 * 14 / 10 / 2);
}

TEST(SampleSizeTest, AttentionThatDoesNotShardIsPaidInFull) {
  PlanRequest request = testing::SimpleRequest(4, 1000, {64});
  request.time.linear_ns_per_token = 100;
  request.time.attention_ns_per_token = 40;
  request.time.sharded_attention_ns_per_token = 30;
  const CostModel costs(request, 0);
  EXPECT_EQ(costs.SampleNs({1}, {64, {}}), 6400);
  EXPECT_EQ(costs.SampleNs({4}, {64, {}}), 64 * 60 / 4 + 64 * 30);
}

TEST(SampleSizeTest, GathersAreNotDividedByTheDegreeButByUlyssesRanks) {
  PlanRequest request = testing::SimpleRequest(8, 1000, {64});
  request.time.linear_ns_per_token = 0;
  request.time.collective_latency_ns = 10;
  request.time.gather = {{8, 5}};
  request.time.collective = {{8, 16}};
  request.model.heads = request.model.kv_heads = 1;
  request.model.sp_modes = {SpMode::kKvGather};
  const CostModel gathers(request, 0);
  EXPECT_EQ(gathers.SampleNs({8}, {64, {}}), 64 * 5);
  EXPECT_EQ(gathers.FixedNs({8}), 4 * 10);
  request.model.heads = request.model.kv_heads = 2;
  request.model.sp_modes = {SpMode::kBoth};
  const CostModel both(request, 0);
  EXPECT_EQ(both.SampleNs({8}, {64, {}}), 64 * 5 / 2 + 64 * 16 / 8);
  EXPECT_EQ(both.FixedNs({8}), 12 * 10);
}

TEST(MemoryModelTest, GatheredKeysAndValuesDoNotFallWithTheDegree) {
  PlanRequest request = testing::SimpleRequest(8, 0, {64});
  request.model.sp_modes = {SpMode::kKvGather};
  request.memory = {};
  request.memory.activation_bytes = 100'000;
  request.memory.layer_bytes_per_token = 100;
  request.memory.gathered_bytes_per_token = 25;
  EXPECT_EQ(TokensPerRank(request, 0, 1), 1000);
  EXPECT_EQ(TokensPerRank(request, 0, 4), 500);
  EXPECT_EQ(TokensPerRank(request, 0, 8), 333);
}

// layer 100, kept 10, gradients 40, head 50, 8 layers.
PlanRequest EightLayers() {
  PlanRequest request = testing::SimpleRequest(8, 0, {64});
  request.model.num_layers = 8;
  request.memory = {};
  request.memory.activation_bytes = 100'000;
  request.memory.layer_bytes_per_token = 100;
  request.memory.kept_bytes_per_token = 10;
  request.memory.backward_bytes_per_token = 40;
  request.memory.head_bytes_per_token = 50;
  return request;
}

TEST(MemoryModelTest, TheMostIsHeldAtOneOfThreeMoments) {
  PlanRequest request = EightLayers();
  EXPECT_EQ(BytesPerToken(request, 0, 1), 800 + 50);       // at the head
  EXPECT_EQ(BytesPerToken(request, 7, 1), 100 + 70 + 50);  // at the head
  // The last layer, again, beside the inputs of all: the head is gone.
  EXPECT_EQ(BytesPerToken(request, 8, 1), 80 + 100 + 40);
  request.memory.head_bytes_per_token = 30;
  EXPECT_EQ(BytesPerToken(request, 0, 1), 800 + 40);  // in the last layer
  // The seventh layer, again: the eighth is gone.
  request.memory.layer_bytes_per_token = 20;
  request.memory.kept_bytes_per_token = 19;
  request.memory.head_bytes_per_token = 0;
  EXPECT_EQ(BytesPerToken(request, 7, 1), 7 * 19 + 20 + 40);
}

TEST(MemoryModelTest, GatheredKeysAndValuesComeInPlaceOfSmallerGradients) {
  PlanRequest request = EightLayers();
  request.model.sp_modes = {SpMode::kKvGather};
  request.memory.gathered_bytes_per_token = 15;
  EXPECT_EQ(BytesPerToken(request, 8, 2), 80 + 100 + 40);
  EXPECT_EQ(BytesPerToken(request, 8, 4), 80 + 100 + 4 * 15);
  EXPECT_EQ(BytesPerToken(request, 0, 2), 800 + 50);
  EXPECT_EQ(BytesPerToken(request, 0, 4), 800 + 60);
}

// 12 query heads and 2 key and value heads, on u ranks by heads.
TEST(MemoryModelTest, CopiesOfKeyAndValueHeadsAreGatheredToo) {
  PlanRequest request = EightLayers();
  request.model.heads = 12;
  request.model.kv_heads = 2;
  request.model.sp_modes = {SpMode::kBoth};
  request.memory.gathered_bytes_per_token = 25;
  // u = 2, then 4, which has each head twice; c = 2.
  EXPECT_EQ(BytesPerToken(request, 8, 4), 80 + 100 + 2 * 25);
  EXPECT_EQ(BytesPerToken(request, 8, 8), 80 + 100 + 2 * 2 * 25);
  // u = 3: one for each query head.
  request.model.expand_kv_heads = true;
  EXPECT_EQ(BytesPerToken(request, 8, 9), 80 + 100 + 3 * 6 * 25);
}

TEST(MemoryModelTest, TheMostThatMayBeGatheredFits63Bits) {
  PlanRequest request = testing::SimpleRequest(kMaxRanks, 1000, {64});
  // u = 2 only, and 3 heads do not divide by it.
  request.model.heads = 6 * 174761;
  request.model.kv_heads = 3;
  request.model.expand_kv_heads = true;
  request.model.sp_modes = {SpMode::kBoth};
  request.memory.gathered_bytes_per_token = 3 * kMaxKvHeadBytesPerToken;
  ASSERT_TRUE(ValidateRequest(request).ok());
  EXPECT_EQ(BytesPerToken(request, 0, kMaxRanks),
            int64_t{kMaxRanks / 2} * 6 * 174761 * kMaxKvHeadBytesPerToken);
}

TEST(MemoryModelTest, CopiesOfKeyAndValueHeadsAreHeldInEveryLayer) {
  PlanRequest request = EightLayers();
  request.model.heads = 12;
  request.model.kv_heads = 2;
  request.memory.kv_head_bytes_per_token = 3;
  EXPECT_EQ(BytesPerToken(request, 0, 2), 8 * 100 + 50);
  EXPECT_EQ(BytesPerToken(request, 0, 4), 8 * (100 + 2 * 3) + 50);
  EXPECT_EQ(BytesPerToken(request, 8, 4), 80 + 100 + 2 * 3 + 40);
  // One for each query head.
  request.model.expand_kv_heads = true;
  EXPECT_EQ(BytesPerToken(request, 0, 3), 8 * (100 + 10 * 3) + 50);
}

TEST(MemoryModelTest, KindsOfLayerHaveBytesAndRecomputeOfTheirOwn) {
  PlanRequest request = Video();
  request.memory = {};
  request.memory.activation_bytes = 1'000'000;
  request.memory.spatial = {100, 10, 20};
  request.memory.temporal = {50, 5, 8};
  request.memory.head_bytes_per_token = 1;
  // Spatial, temporal, spatial, temporal, spatial.
  EXPECT_EQ(BytesPerToken(request, LayerCounts(0, 0), 1), 400 + 20);
  EXPECT_EQ(BytesPerToken(request, LayerCounts(3, 0), 1), 30 + 100 + 100 + 20);
  EXPECT_EQ(BytesPerToken(request, LayerCounts(3, 2), 1), 30 + 10 + 100 + 20);
  // The last spatial layer is whole: in its own backward the most is held, and
  // when another runs again it is gone.
  EXPECT_EQ(BytesPerToken(request, LayerCounts(0, 2), 1), 310 + 20);
  EXPECT_EQ(BytesPerToken(request, LayerCounts(2, 0), 1), 120 + 100 + 20);
  EXPECT_EQ(BytesPerToken(request, LayerCounts(2, 2), 1), 130 + 20);
}

// As the trainer's models have them.
TEST(MemoryModelTest, ALayerThatRunsAgainStandsBesideThoseBeforeItAlone) {
  PlanRequest request = Video();
  request.model.temporal_layers = 3;
  request.memory = {};
  request.memory.activation_bytes = 1'000'000;
  request.memory.spatial = {100, 10, 20};
  request.memory.temporal = {50, 5, 8};
  // Without the third temporal layer, which has been backward.
  EXPECT_EQ(BytesPerToken(request, LayerCounts(3, 0), 1), 30 + 100 + 100 + 20);
  EXPECT_EQ(BytesPerToken(request, LayerCounts(3, 2), 1), 30 + 10 + 100 + 20);
  // With it, because it runs again first.
  EXPECT_EQ(BytesPerToken(request, LayerCounts(0, 3), 1), 300 + 15 + 50 + 8);
  EXPECT_EQ(BytesPerToken(request, LayerCounts(3, 3), 1), 30 + 10 + 100 + 20);
  // Kinds of which one has more layers: the others follow by themselves.
  request.model.temporal_layers = 5;
  EXPECT_EQ(BytesPerToken(request, LayerCounts(1, 4), 1), 210 + 20 + 50 + 8);
}

TEST(MemoryModelTest, StatesFollowTheirLayout) {
  EXPECT_EQ(StateBytesPerParameter(StateLayout::kReplicatedFloat32, 64, 1), 16);
  EXPECT_EQ(StateBytesPerParameter(StateLayout::kZero1Float32, 8, 1), 8 + 5);
  EXPECT_EQ(StateBytesPerParameter(StateLayout::kZero1Bfloat16, 16, 1), 6 + 3);
  EXPECT_EQ(StateBytesPerParameter(StateLayout::kZero1Float32, 64, 0), 8 + 1);
}

}  // namespace
}  // namespace evenstep::planner
