#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "jobspec/job_spec.h"
#include "jobspec/plan_request.h"

namespace evenstep::jobspec {
namespace {

using ::testing::HasSubstr;

JobSpec Good() {
  JobSpec spec;
  spec.name = "good";
  spec.model.kv_heads = 2;
  spec.data.source = "text:/data";
  spec.costs = planner::TimeModel{.micro_batch_fixed_ns = 1,
                                  .linear_ns_per_token = 1,
                                  .collective = {{2, 1.0}}};
  spec.timeouts.collective = absl::Seconds(1);
  return spec;
}

// The message of the rule that `change` breaks.
std::string Broken(const std::function<void(JobSpec&)>& change) {
  JobSpec spec = Good();
  change(spec);
  return std::string(ValidateJobSpec(spec).message());
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(RulesTest, GoodJobBreaksNone) {
  EXPECT_TRUE(ValidateJobSpec(Good()).ok()) << ValidateJobSpec(Good());
}

TEST(RulesTest, EveryRuleNamesItsKeyAndTheNumbers) {
  const struct {
    std::function<void(JobSpec&)> change;
    const char* message;
  } cases[] = {
      {[](JobSpec& s) { s.name = ""; }, "name: is required"},
      {[](JobSpec& s) { s.name = std::string(129, 'a'); }, "name: 129 bytes"},
      {[](JobSpec& s) { s.name = "a\nb"; }, "name: holds a control"},
      {[](JobSpec& s) { s.kind = "grpo"; }, "kind: 'grpo'"},
      {[](JobSpec& s) { s.model.layers = 0; }, "model.layers: 0"},
      {[](JobSpec& s) { s.model.width = -1; }, "model.width: -1"},
      {[](JobSpec& s) { s.model.heads = 0; }, "model.heads: 0"},
      {[](JobSpec& s) { s.model.width = 130; }, "130 is not a multiple of 4"},
      {[](JobSpec& s) { s.model.width = 12; }, "rotary positions"},
      {[](JobSpec& s) { s.model.kv_heads = 3; }, "3 does not divide 4"},
      {[](JobSpec& s) { s.model.kv_heads = 0; }, "model.kv_heads: 0"},
      {[](JobSpec& s) { s.model.vocab = 256; },
       "model.vocab: 256 is below 257: the tokens of text:/data are bytes"},
      {[](JobSpec& s) {
         s.model.vocab = 256;
         s.data.source = "synthetic:wikipedia";
       },
       "model.vocab: 256 is below 257"},
      {[](JobSpec& s) { s.model.vocab = 1; }, "model.vocab: 1 is not in 2"},
      {[](JobSpec& s) { s.data.source = "synthetic:lognormal(5)"; },
       "data.source: law 'lognormal(5)': sigma is from 0 to 10"},
      {[](JobSpec& s) { s.data.source = "synthetic:wikipedia;dokuments=3"; },
       "data.source: synthetic:wikipedia;dokuments=3: unknown key 'dokuments'"},
      {[](JobSpec& s) { s.evaluation.source = "synthetic:long;documents=0"; },
       "evaluation.source: synthetic:long;documents=0: 0 documents"},
      {[](JobSpec& s) { s.data.source = "/data/notes"; },
       "files of text are 'text:/data/notes'"},
      {[](JobSpec& s) { s.model.name = std::string(129, 'a'); },
       "model.name: 129 bytes"},
      {[](JobSpec& s) {
         s.model.name = "gpt2";
         s.memory.recompute = Recompute::kPlan;
       },
       "memory.recompute: plan counts the memory of the trainer's own models"},
      {[](JobSpec& s) { s.model.mlp_width = -1; }, "model.mlp_width: -1"},
      {[](JobSpec& s) { s.model.rope_theta = 0; }, "model.rope_theta: 0"},
      {[](JobSpec& s) { s.model.norm_epsilon = kNan; }, "model.norm_epsilon"},
      {[](JobSpec& s) { s.model.weights = "a\nb"; }, "model.weights: holds a"},
      {[](JobSpec& s) { s.evaluation.share = 1; }, "evaluation.share: 1"},
      {[](JobSpec& s) { s.evaluation.share = kNan; }, "evaluation.share: nan"},
      {[](JobSpec& s) { s.evaluation.every = 5; },
       "evaluation.every: there is nothing to evaluate on"},
      {[](JobSpec& s) { s.evaluation.samples = 5; },
       "evaluation.samples: there is nothing to evaluate on"},
      {[](JobSpec& s) { s.evaluation = {.share = 0.1, .every = -1}; },
       "evaluation.every: -1"},
      {[](JobSpec& s) { s.evaluation = {.share = 0.1, .source = "text:/e"}; },
       "evaluation.source: cannot be combined with evaluation.share"},
      {[](JobSpec& s) { s.evaluation.source = s.data.source; },
       "evaluation.source: 'text:/data' is what is trained on"},
      {[](JobSpec& s) { s.evaluation.source = "text:/data/"; },
       "evaluation.source: 'text:/data/' is what is trained on"},
      {[](JobSpec& s) { s.evaluation.source = "latents:/e"; },
       "evaluation.source: 'latents:/e' is not what a text model"},
      {[](JobSpec& s) { s.data.source = ""; }, "data.source: is required"},
      {[](JobSpec& s) { s.data.source = "text:"; },
       "'text:' names nothing after the colon; it is text:PATH"},
      {[](JobSpec& s) { s.data.source = "clay:/x"; }, "is none of text:PATH"},
      {[](JobSpec& s) {
         s.data.source = "megatron:/x";
         s.data.tokenizer = "/m";
       },
       "has tokens of its own"},
      {[](JobSpec& s) { s.data.max_length = 1; }, "data.max_length: 1"},
      {[](JobSpec& s) { s.batch_samples = 0; }, "batch.samples: 0"},
      {[](JobSpec& s) {
         s.batch_samples = 1 << 20;
         s.data.max_length = 1 << 20;
       },
       "1099511627776 tokens a step"},
      {[](JobSpec& s) { s.batch_samples = 300000; },
       "batch.samples: the plan of 300000 samples on"},
      {[](JobSpec& s) {
         s.batch_samples = 100000;
         s.look_ahead = 63;
       },
       "100000 samples of 64 steps (look_ahead and the one that runs) are "
       "6400000; at most 2097152"},
      {[](JobSpec& s) { s.steps = 0; }, "steps: 0"},
      {[](JobSpec& s) { s.optimizer.lr = 0; }, "optimizer.lr: 0 is not above"},
      {[](JobSpec& s) { s.optimizer.lr = kNan; }, "optimizer.lr: nan"},
      {[](JobSpec& s) { s.optimizer.lr = kInf; }, "optimizer.lr: inf"},
      {[](JobSpec& s) { s.optimizer.warmup = 101; }, "optimizer.warmup: 101"},
      {[](JobSpec& s) { s.optimizer.weight_decay = -1; }, "weight_decay: -1"},
      {[](JobSpec& s) { s.optimizer.clip = kNan; }, "optimizer.clip: nan"},
      {[](JobSpec& s) { s.ranks = 0; }, "ranks: 0"},
      {[](JobSpec& s) { s.look_ahead = 0; }, "look_ahead: 0"},
      {[](JobSpec& s) { s.look_ahead = 65; }, "look_ahead: 65"},
      {[](JobSpec& s) { s.memory.tokens_per_rank = 0; }, "tokens_per_rank: 0"},
      {[](JobSpec& s) { s.memory.recompute_layers = 3; },
       "memory.recompute_layers: 3 is not in 0 to 2"},
      {[](JobSpec& s) { s.costs = planner::TimeModel{.step_fixed_ns = 1}; },
       "costs: every cost of a micro-batch is 0"},
      {[](JobSpec& s) { s.costs->linear_ns_per_token = kNan; },
       "costs.linear_ns_per_token: nan"},
      {[](JobSpec& s) { s.costs->step_fixed_ns = -1; },
       "costs.step_fixed_ns: -1"},
      {[](JobSpec& s) {
         s.costs->collective.push_back({2, 1.0});
       },
       "costs.collective: degree 2 after 2"},
      {[](JobSpec& s) { s.timeouts.collective = absl::ZeroDuration(); },
       "timeouts.collective: 0 is not in"},
      {[](JobSpec& s) { s.groups_per_rank = 0; }, "groups_per_rank: 0"},
      {[](JobSpec& s) {
         s.blocks = planner::BlockShape::kContiguous;
         s.ranks = 6;
         s.groups_per_rank = 3;
       },
       "groups_per_rank: 3 groups for each of 6 ranks; aligned blocks take 3"},
      {[](JobSpec& s) {
         s.blocks = planner::BlockShape::kContiguous;
         s.ranks = 513;
       },
       "blocks: contiguous blocks of 513 ranks; at most 512"},
      {[](JobSpec& s) {
         s.memory.recompute = Recompute::kPlan;
         s.policy = planner::Policy::kPacked;
       },
       "memory.recompute: plan: the policy packed does not choose"},
      {[](JobSpec& s) {
         s.memory.recompute = Recompute::kPlan;
         s.memory.tokens_per_rank = int64_t{1} << 36;
         s.model.layers = 100;
       },
       "memory.tokens_per_rank: 68719476736 tokens take"},
      {[](JobSpec& s) { s.timeouts.start = absl::InfiniteDuration(); },
       "timeouts.start: inf"},
      {[](JobSpec& s) { s.timeouts.stop = absl::Microseconds(1500); },
       "timeouts.stop: 1.5ms is not a whole number"},
  };
  for (const auto& one : cases) {
    EXPECT_THAT(Broken(one.change), HasSubstr(one.message));
  }
}

// What ids the files have, only reading them shows.
TEST(RulesTest, DataWithIdsOfItsOwnMayHaveASmallVocabulary) {
  JobSpec spec = Good();
  spec.model.vocab = 30;
  spec.data.source = "megatron:/data/proteins";
  EXPECT_TRUE(ValidateJobSpec(spec).ok()) << ValidateJobSpec(spec);
  spec.data.source = "text:/data";
  spec.data.tokenizer = "/data/m.model";
  EXPECT_TRUE(ValidateJobSpec(spec).ok()) << ValidateJobSpec(spec);
}

TEST(RulesTest, JobThatFitsNowhereIsRefusedWithTheNumbers) {
  // 10 tokens a rank, 2 ranks: 21 is refused, 20 is not.
  JobSpec spec = Good();
  spec.ranks = 2;
  spec.memory.tokens_per_rank = 10;
  spec.data.max_length = 20;
  EXPECT_TRUE(CheckJobFits(spec).ok()) << CheckJobFits(spec);
  spec.data.max_length = 21;
  const absl::Status status = CheckJobFits(spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("21"));
  spec.memory.tokens_per_rank = 11;
  EXPECT_TRUE(CheckJobFits(spec).ok());
}

TEST(RulesTest, WhatFitsWithRecomputeAloneFitsWhereThePlanChooses) {
  JobSpec spec = Good();
  spec.ranks = 1;
  spec.memory.tokens_per_rank = 10;
  spec.data.max_length = 12;
  EXPECT_FALSE(CheckJobFits(spec).ok());
  spec.memory.recompute = Recompute::kPlan;
  EXPECT_TRUE(CheckJobFits(spec).ok()) << CheckJobFits(spec);
  spec.data.max_length = 1000;
  EXPECT_FALSE(CheckJobFits(spec).ok());
}

TEST(RulesTest, AlignedBlocksTakeAGroupForEachPowerOfTwoAndTheWorld) {
  EXPECT_EQ(NumAlignedGroups(1), 0);
  EXPECT_EQ(NumAlignedGroups(2), 1);
  EXPECT_EQ(NumAlignedGroups(3), 2);
  EXPECT_EQ(NumAlignedGroups(4), 2);
  EXPECT_EQ(NumAlignedGroups(6), 3);
  EXPECT_EQ(NumAlignedGroups(64), 6);
}

// What is open besides is what the planner may use.
TEST(RulesTest, ThePlanKnowsTheGroupsThatAreLeftBesideAlignedOnes) {
  JobSpec spec = Good();
  spec.ranks = 6;
  EXPECT_EQ(ToPlanRequest(spec).options.max_groups_per_rank, 0);
  spec.blocks = planner::BlockShape::kContiguous;
  spec.groups_per_rank = 5;
  const planner::Options options = ToPlanRequest(spec).options;
  EXPECT_EQ(options.blocks, planner::BlockShape::kContiguous);
  EXPECT_EQ(options.max_groups_per_rank, 2);
}

TEST(RulesTest, PlannersAndDataSetsViewsCarryTheJobsNumbers) {
  const JobSpec spec = Good();
  const planner::ModelShape shape = ToModelShape(spec.model);
  EXPECT_EQ(shape.num_layers, 2);
  EXPECT_EQ(shape.width, 128);
  EXPECT_EQ(shape.heads, 4);
  EXPECT_EQ(shape.kv_heads, 2);
  EXPECT_EQ(ToPlanRequest(spec).memory.tokens_per_rank, 8192);
  EXPECT_EQ(ToDatasetOptions(spec).source, "text:/data");
  EXPECT_EQ(ToDatasetOptions(spec).max_length, 2048);
}

}  // namespace
}  // namespace evenstep::jobspec
