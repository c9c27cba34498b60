#include "wire/step_plan.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "jobspec/rules/rule_parts.h"
#include "planner/limits.h"
#include "planner/planner.h"

namespace evenstep::wire {
namespace {

using planner::SpMode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

StepPlan Example() {
  StepPlan plan;
  plan.generation = 2;
  plan.step = 7;
  plan.world = 4;
  plan.micro_batches = {
      {.first_rank = 0,
       .degree = 4,
       .sample_ids = {42},
       .lengths = {900},
       .shapes = {},
       .recompute_layers = 1,
       .recompute_temporal_layers = 0,
       .sp_mode = SpMode::kUlysses,
       .ulysses_degree = 0,
       .round = 0,
       .predicted_ns = 1000},
      {.first_rank = 2,
       .degree = 2,
       .sample_ids = {43, 44},
       .lengths = {100, 50},
       .shapes = {},
       .recompute_layers = 0,
       .recompute_temporal_layers = 0,
       .sp_mode = SpMode::kUlysses,
       .ulysses_degree = 0,
       .round = 0,
       .predicted_ns = 300},
  };
  plan.trained_tokens = 1047;
  plan.predicted_step_ns = 1300;
  plan.lower_bound_ns = 1200;
  plan.predicted_imbalance = 0.25;
  plan.padding_ratio = 0.125;
  plan.policy = "even";
  plan.digest = StepPlanDigest(plan);
  return plan;
}

// A plan as the planner makes it, whatever the mode, is one that a trainer
// takes: one gathered degree of each kind on six ranks.
TEST(StepPlanTest, EveryModeOfThePlannerPassesTheWire) {
  for (const auto& [modes, ulysses] :
       std::vector<std::pair<std::vector<planner::SpMode>, int>>{
           {{planner::SpMode::kUlysses}, 0},
           {{planner::SpMode::kKvGather}, 1},
           {{planner::SpMode::kBoth}, 2}}) {
    planner::PlanRequest request;
    request.samples = {{0, 40, 39}};
    request.cluster.ranks_per_node = {4};
    request.model.width = 8;
    request.model.heads = modes[0] == planner::SpMode::kUlysses ? 4 : 2;
    request.model.kv_heads = request.model.heads;
    request.model.sp_modes = modes;
    request.memory.tokens_per_rank = 12;
    request.time.linear_ns_per_token = 1;
    const auto plan = planner::MakePlan(request);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const StepPlan made = MakeStepPlan(request, *plan, 1, 0, "even");
    EXPECT_EQ(made.micro_batches[0].degree, 4);
    EXPECT_EQ(made.micro_batches[0].ulysses_degree, ulysses);
    const auto again = FromProto(ToProto(made));
    EXPECT_TRUE(again.ok()) << again.status();
  }
}

TEST(StepPlanTest, RoundTripKeepsEverything) {
  const StepPlan plan = Example();
  const auto again = FromProto(ToProto(plan));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->generation, 2);
  EXPECT_EQ(again->step, 7);
  EXPECT_EQ(again->world, 4);
  ASSERT_EQ(again->micro_batches.size(), 2u);
  EXPECT_THAT(again->micro_batches[1].sample_ids, ElementsAre(43, 44));
  EXPECT_THAT(again->micro_batches[1].lengths, ElementsAre(100, 50));
  EXPECT_EQ(again->micro_batches[0].recompute_layers, 1);
  EXPECT_EQ(again->micro_batches[0].predicted_ns, 1000);
  EXPECT_EQ(again->predicted_imbalance, 0.25);
  EXPECT_EQ(again->padding_ratio, 0.125);
  EXPECT_EQ(again->lower_bound_ns, 1200);
  EXPECT_EQ(again->predicted_step_ns, 1300);
  EXPECT_EQ(again->policy, "even");
  EXPECT_EQ(again->digest, plan.digest);
}

TEST(StepPlanTest, ModesRoundsAndKindsOfLayerRoundTrip) {
  StepPlan plan = Example();
  plan.micro_batches[0].sp_mode = SpMode::kBoth;
  plan.micro_batches[0].ulysses_degree = 2;
  plan.micro_batches[1].sp_mode = SpMode::kSwitch;
  plan.micro_batches[1].ulysses_degree = 1;
  plan.micro_batches[1].recompute_temporal_layers = 2;
  plan.micro_batches[1].round = 1;
  plan.digest = StepPlanDigest(plan);
  const auto again = FromProto(ToProto(plan));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->micro_batches[0].sp_mode, SpMode::kBoth);
  EXPECT_EQ(again->micro_batches[0].ulysses_degree, 2);
  EXPECT_EQ(again->micro_batches[1].sp_mode, SpMode::kSwitch);
  EXPECT_EQ(again->micro_batches[1].recompute_temporal_layers, 2);
  EXPECT_EQ(again->micro_batches[1].round, 1);
}

TEST(StepPlanTest, RanksOfABlockAndNoOthersAreContained) {
  const PlannedMicroBatch block = Example().micro_batches[1];
  EXPECT_FALSE(block.Contains(1));
  EXPECT_TRUE(block.Contains(2));
  EXPECT_TRUE(block.Contains(3));
  EXPECT_FALSE(block.Contains(4));
}

// A digest that is written down: a change of the canonical bytes would split a
// cluster in the middle of an upgrade.
TEST(StepPlanTest, DigestOfAKnownPlanStaysTheSame) {
  StepPlan plan;
  plan.world = 1;
  plan.step = 0;
  plan.trained_tokens = 0;
  // Four zero or one int64 values: 1, 0, 0, 0.
  uint64_t expected = 0xcbf29ce484222325ULL;
  for (const int value : {1, 0, 0, 0}) {
    for (int byte = 0; byte < 8; ++byte) {
      expected = (expected ^ (byte == 0 ? value : 0)) * 0x100000001b3ULL;
    }
  }
  EXPECT_EQ(StepPlanDigest(plan), expected);
  EXPECT_EQ(StepPlanDigest(Example()), 9481110162084929207ULL);
}

TEST(StepPlanTest, DigestChangesWithAllThatRanksComputeAndNothingElse) {
  const uint64_t digest = Example().digest;
  const std::function<void(StepPlan&)> changes[] = {
      [](StepPlan& p) { p.world = 8; },
      [](StepPlan& p) { p.step = 8; },
      [](StepPlan& p) { p.trained_tokens += 1; },
      [](StepPlan& p) { p.micro_batches[1].first_rank = 0; },
      [](StepPlan& p) { p.micro_batches[1].degree = 1; },
      [](StepPlan& p) { p.micro_batches[1].sample_ids[0] = 45; },
      [](StepPlan& p) { p.micro_batches[1].lengths[0] = 101; },
      [](StepPlan& p) { p.micro_batches[1].recompute_layers = 1; },
      [](StepPlan& p) { p.micro_batches[1].recompute_temporal_layers = 1; },
      [](StepPlan& p) { p.micro_batches[1].sp_mode = SpMode::kKvGather; },
      [](StepPlan& p) { p.micro_batches[1].round = 1; },
      [](StepPlan& p) { std::swap(p.micro_batches[0], p.micro_batches[1]); },
      [](StepPlan& p) {
        std::swap(p.micro_batches[1].lengths[0], p.micro_batches[1].lengths[1]);
      },
      [](StepPlan& p) { p.micro_batches.pop_back(); },
  };
  for (const auto& change : changes) {
    StepPlan plan = Example();
    change(plan);
    EXPECT_NE(StepPlanDigest(plan), digest);
  }
  StepPlan plan = Example();
  plan.generation = 9;
  plan.predicted_step_ns = 1;
  plan.micro_batches[0].predicted_ns = 1;
  plan.policy = "static";
  EXPECT_EQ(StepPlanDigest(plan), digest);
}

TEST(StepPlanTest, PlansThatCannotRunAreRefusedWithTheReason) {
  const struct {
    std::function<void(v1::StepPlan&)> change;
    const char* message;
  } cases[] = {
      {[](v1::StepPlan& p) { p.mutable_micro_batches(0)->add_lengths(5); },
       "1 sample ids, 2 lengths and 0 shapes"},
      {[](v1::StepPlan& p) { p.mutable_micro_batches(0)->clear_lengths(); },
       "1 sample ids, 0 lengths and 0 shapes"},
      {[](v1::StepPlan& p) {
         p.mutable_micro_batches(0)->clear_sample_ids();
         p.mutable_micro_batches(0)->clear_lengths();
       },
       "0 sample ids, 0 lengths and 0 shapes"},
      {[](v1::StepPlan& p) { p.mutable_micro_batches(1)->set_first_rank(3); },
       "2 ranks from rank 3 exceeds 4"},
      {[](v1::StepPlan& p) { p.mutable_micro_batches(1)->set_first_rank(-1); },
       "from rank -1"},
      {[](v1::StepPlan& p) { p.mutable_micro_batches(1)->set_degree(0); },
       "block of 0 ranks"},
      {[](v1::StepPlan& p) {
         p.mutable_micro_batches(1)->set_degree(2147483647);
       },
       "exceeds 4"},
      {[](v1::StepPlan& p) { p.mutable_micro_batches(1)->set_lengths(1, 0); },
       "micro-batch 1: sample 44 has length 0"},
      {[](v1::StepPlan& p) {
         p.mutable_micro_batches(1)->set_recompute_layers(-1);
       },
       "-1 + 0 layers recomputed"},
      {[](v1::StepPlan& p) {
         p.mutable_micro_batches(1)->set_recompute_temporal_layers(-2);
       },
       "0 + -2 layers recomputed"},
      {[](v1::StepPlan& p) { p.mutable_micro_batches(1)->set_round(-1); },
       "round -1"},
      {[](v1::StepPlan& p) {
         p.mutable_micro_batches(0)->set_ulysses_degree(3);
       },
       "mode 1 with 3 ulysses ranks at degree 4"},
      {[](v1::StepPlan& p) {
         p.mutable_micro_batches(1)->set_sp_mode(v1::SP_MODE_BOTH);
       },
       "mode 3 with 0 ulysses ranks at degree 2"},
      {[](v1::StepPlan& p) {
         p.mutable_micro_batches(1)->set_sp_mode(v1::SP_MODE_UNSPECIFIED);
       },
       "mode 0 with"},
      {[](v1::StepPlan& p) {
         p.mutable_micro_batches(1)->set_sp_mode(static_cast<v1::SpMode>(9));
       },
       "mode 9"},
      {[](v1::StepPlan& p) { p.set_world(0); }, "world 0"},
      {[](v1::StepPlan& p) { p.set_step(-1); }, "step -1"},
      {[](v1::StepPlan& p) { p.set_trained_tokens(1048); }, "says digest"},
      {[](v1::StepPlan& p) { p.set_digest(p.digest() + 1); }, "says digest"},
  };
  for (const auto& one : cases) {
    v1::StepPlan proto = ToProto(Example());
    one.change(proto);
    const auto plan = FromProto(proto);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(plan.status().message()), HasSubstr(one.message));
  }
}

TEST(StepPlanTest, PlannersIndicesBecomeIdsAndLengths) {
  planner::PlanRequest request;
  request.samples = {{.id = 100, .length = 5, .trained_tokens = 4},
                     {.id = 101, .length = 9, .trained_tokens = 8}};
  request.cluster.ranks_per_node = {2, 1};
  planner::Plan plan;
  planner::MicroBatch micro_batch;
  micro_batch.first_rank = 1;
  micro_batch.degree = 2;
  micro_batch.samples = {1, 0};
  micro_batch.recompute_layers = 1;
  micro_batch.predicted_ns = 77;
  plan.micro_batches = {micro_batch};
  plan.trained_tokens = 12;
  plan.predicted_step_ns = 80;
  plan.lower_bound_ns = 70;
  const StepPlan made = MakeStepPlan(request, plan, 3, 4, "even");
  EXPECT_EQ(made.world, 3);
  EXPECT_EQ(made.generation, 3);
  EXPECT_EQ(made.step, 4);
  EXPECT_THAT(made.micro_batches[0].sample_ids, ElementsAre(101, 100));
  EXPECT_THAT(made.micro_batches[0].lengths, ElementsAre(9, 5));
  EXPECT_EQ(made.digest, StepPlanDigest(made));
  EXPECT_TRUE(FromProto(ToProto(made)).ok());
}

// protobuf writes a line about every string that is not UTF-8.
bool ParseQuietly(const std::string& bytes, v1::StepPlan* proto) {
  const google::protobuf::LogSilencer silencer;
  return proto->ParseFromString(bytes);
}

TEST(StepPlanTest, DamagedPlansAreRefusedOrEqual) {
  std::mt19937 random(5);
  const std::string bytes = ToProto(Example()).SerializeAsString();
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = bytes;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
    v1::StepPlan proto;
    if (!ParseQuietly(damaged, &proto)) continue;
    const auto plan = FromProto(proto);
    // What the digest covers cannot have changed unseen.
    if (!plan.ok()) continue;
    EXPECT_EQ(plan->digest, Example().digest);
  }
}

TEST(StepPlanTest, ShapesOfVideoTravelWithTheirSamples) {
  StepPlan plan;
  plan.world = 2;
  PlannedMicroBatch clips;
  clips.degree = 2;
  clips.sp_mode = planner::SpMode::kSwitch;
  clips.ulysses_degree = 1;
  clips.recompute_temporal_layers = 2;
  clips.sample_ids = {7};
  clips.lengths = {24};
  clips.shapes = {{4, 3, 2}};
  plan.micro_batches = {clips};
  plan.digest = StepPlanDigest(plan);
  v1::StepPlan proto = ToProto(plan);
  const auto again = FromProto(proto);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->micro_batches[0].shapes, clips.shapes);
  proto.mutable_micro_batches(0)->mutable_shapes(0)->set_frames(5);
  EXPECT_FALSE(FromProto(proto).ok());
  proto.mutable_micro_batches(0)->clear_shapes();
  EXPECT_TRUE(FromProto(proto).ok());
}

// The bound at submit is on plans that are not made yet: it must hold for the
// largest that there can be.
TEST(StepPlanTest, NoPlanIsLargerThanTheBoundAtSubmit) {
  for (const bool is_video : {false, true}) {
    jobspec::JobSpec spec;
    spec.batch_samples = 1000;
    spec.ranks = planner::kMaxRanks;
    if (is_video) spec.model.kind = jobspec::ModelKind::kVideo;
    ASSERT_EQ(spec.model.is_video(), is_video);
    v1::StepPlan plan;
    for (int64_t i = 0; i < spec.batch_samples; ++i) {
      v1::MicroBatch& micro_batch = *plan.add_micro_batches();
      micro_batch.set_first_rank(planner::kMaxRanks);
      micro_batch.set_degree(planner::kMaxRanks);
      micro_batch.add_sample_ids(std::numeric_limits<int64_t>::max());
      micro_batch.add_lengths(planner::kMaxLengthTokens);
      micro_batch.set_recompute_layers(planner::kMaxLayers);
      micro_batch.set_predicted_ns(std::numeric_limits<int64_t>::max());
      micro_batch.set_sp_mode(v1::SP_MODE_SWITCH);
      micro_batch.set_ulysses_degree(planner::kMaxRanks);
      micro_batch.set_recompute_temporal_layers(planner::kMaxLayers);
      micro_batch.set_round(planner::kMaxSamples);
      if (!is_video) continue;
      v1::ClipShape& shape = *micro_batch.add_shapes();
      shape.set_frames(planner::kMaxLengthTokens);
      shape.set_height(planner::kMaxLengthTokens);
      shape.set_width(planner::kMaxLengthTokens);
    }
    for (int rank = 0; rank < spec.ranks; ++rank) plan.add_rank_speed(1);
    for (int degree = 1; degree <= planner::kMaxContiguousRanks; ++degree) {
      v1::CostModel& all = *plan.mutable_costs();
      for (auto* costs :
           {all.mutable_collective(), all.mutable_gather(),
            all.mutable_collective_across(), all.mutable_gather_across()}) {
        v1::CollectiveCost& cost = *costs->Add();
        cost.set_degree(degree);
        cost.set_ns_per_token(1.5);
      }
    }
    EXPECT_LE(static_cast<int64_t>(plan.ByteSizeLong()),
              jobspec::MostPlanBytes(spec))
        << (is_video ? "video" : "text");
  }
}

}  // namespace
}  // namespace evenstep::wire
