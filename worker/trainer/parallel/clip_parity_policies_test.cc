// Law 2 for what the planner really makes of clips: every policy on every
// world, through the wire and back, on ranks that are threads. The longest clip
// needs several ranks. Some are single frames, which no group can switch:
// policies of one degree run those by exchanging heads, the others also on one
// rank beside groups that switch.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "planner/planner.h"
#include "worker/trainer/testing/expect_parity.h"
#include "worker/trainer/testing/planned_step.h"

namespace evenstep::trainer {
namespace {

using data::ClipShape;
using planner::Policy;
using planner::SpMode;
using testing::ExpectParity;
using testing::ParityOptions;
using testing::PlannedStep;
using testing::SmallVideoConfig;

// Switching without single frames; exchanging heads; switching on two ranks and
// exchanging heads on more.
enum class Sharing { kSwitch, kHeads, kBoth };

std::vector<ClipShape> Shapes(Sharing sharing) {
  const int64_t least = sharing == Sharing::kSwitch ? 2 : 1;
  return {{8, 2, 4}, {least, 2, 2}, {2, 2, 3}, {least, 4, 4},
          {4, 2, 2}, {3, 1, 5},     {8, 2, 4}, {2, 1, 2},
          {6, 2, 2}, {least, 1, 2}, {5, 2, 2}, {2, 3, 3}};
}

planner::PlanRequest Request(Policy policy, int world, Sharing sharing) {
  planner::PlanRequest request;
  const std::vector<ClipShape> shapes = Shapes(sharing);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const ClipShape& shape = shapes[i];
    const data::SampleTokens sample =
        testing::RandomClip(static_cast<int64_t>(i), shape, 1);
    request.samples.push_back(
        {static_cast<int64_t>(i), shape.tokens(),
         (shape.frames - sample.given_frames) * shape.patches(), shape.frames,
         shape.height, shape.width});
  }
  request.run.max_length = 64;
  request.cluster.ranks_per_node = {world};
  const DiffusionTransformerConfig config = SmallVideoConfig();
  request.model.width = config.width;
  request.model.heads = request.model.kv_heads = config.heads;
  request.model.spatial_layers = request.model.temporal_layers =
      config.layers / 2;
  if (sharing == Sharing::kHeads) {
    request.model.sp_modes = {SpMode::kUlysses};
  }
  if (sharing == Sharing::kBoth) {
    request.model.sp_modes = {SpMode::kSwitch, SpMode::kUlysses};
    request.model.max_switch_degree = 2;
  }
  request.time.micro_batch_fixed_ns = 1000;
  request.time.spatial = {100, 10};
  request.time.temporal = {100, 20};
  request.time.collective_latency_ns = 50;
  request.memory.tokens_per_rank = 36;
  request.options.policy = policy;
  request.options.recompute_layers = planner::LayerCounts(1, 2);
  return request;
}

using Case = std::tuple<Policy, int, Sharing>;

class ClipParityPoliciesTest : public ::testing::TestWithParam<Case> {};

TEST_P(ClipParityPoliciesTest, EveryPolicysPlanGivesTheSameGradient) {
  const auto [policy, world, sharing] = GetParam();
  const auto step = PlannedStep(Request(policy, world, sharing));
  ASSERT_TRUE(step.ok()) << step.status();
  for (const testing::TestMicroBatch& clips : *step) {
    EXPECT_EQ(clips.recompute_layers, 1);
    EXPECT_EQ(clips.recompute_temporal_layers, 2);
  }
  ParityOptions options;
  options.video = SmallVideoConfig();
  options.world = world;
  options.steps = {*step};
  ExpectParity(options);
}

// One frame of 9000 patches where a rank holds 4096 tokens, and a
// frame cannot be shared by switching.
TEST(ClipCapacityTest, AFirstClipAboveCapacityIsNamed) {
  planner::PlanRequest request = Request(Policy::kEven, 2, Sharing::kSwitch);
  request.memory.tokens_per_rank = 4096;
  request.run.max_length = 0;
  request.samples[0] = {0, 9000, 9000, 1, 90, 100};
  const auto plan = planner::MakePlan(request);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(plan.status().message()),
              ::testing::HasSubstr("sample 0"));
  // As two frames both ranks share it.
  request.samples[0] = {0, 8000, 8000, 2, 40, 100};
  EXPECT_TRUE(planner::MakePlan(request).ok());
}

// What counts is what a clip has, not the largest frame.
TEST(ClipCapacityTest, SmallClipsPackWhateverTheLargestFrameIs) {
  planner::PlanRequest request = Request(Policy::kPacked, 2, Sharing::kSwitch);
  request.run.max_length = 100'000;
  request.memory.tokens_per_rank = 400;
  const auto plan = planner::MakePlan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LE(plan->micro_batches.size(), 2u);
}

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  constexpr const char* kNames[] = {"_switch", "_heads", "_both"};
  return absl::StrCat(
      absl::StrReplaceAll(planner::PolicyName(std::get<0>(info.param)),
                          {{"-", "_"}}),
      "_", std::get<1>(info.param),
      kNames[static_cast<int>(std::get<2>(info.param))]);
}

INSTANTIATE_TEST_SUITE_P(
    All, ClipParityPoliciesTest,
    ::testing::Combine(::testing::Values(Policy::kStatic, Policy::kBalanced,
                                         Policy::kPacked, Policy::kEven,
                                         Policy::kBucket, Policy::kBucketTuned,
                                         Policy::kDcpInter, Policy::kDcpIntra),
                       ::testing::Values(2, 4, 8),
                       ::testing::Values(Sharing::kSwitch, Sharing::kHeads)),
    NameOf);

// A degree for every clip.
INSTANTIATE_TEST_SUITE_P(
    Mixed, ClipParityPoliciesTest,
    ::testing::Combine(::testing::Values(Policy::kEven, Policy::kDcpInter,
                                         Policy::kDcpIntra),
                       ::testing::Values(2, 4, 8),
                       ::testing::Values(Sharing::kBoth)),
    NameOf);

}  // namespace
}  // namespace evenstep::trainer
