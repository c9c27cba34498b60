#include "wire/job_spec_proto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "wire/data_summary_proto.h"

namespace evenstep::wire {
namespace {

using ::testing::HasSubstr;

jobspec::JobSpec Example() {
  jobspec::JobSpec spec;
  spec.name = "job";
  spec.model = {
      .name = "own",
      .layers = 3,
      .width = 64,
      .heads = 4,
      .kv_heads = 2,
      .vocab = 300,
      .attention = jobspec::Attention::kFull,
      .sp_modes = {planner::SpMode::kKvGather, planner::SpMode::kBoth},
      .expand_kv_heads = true,
      .weights = "/w/model.safetensors",
      .mlp_width = 96,
      .rope_theta = 500000,
      .norm_epsilon = 1e-6};
  spec.data = {.source = "text:/d",
               .tokenizer = "/t.model",
               .max_length = 99,
               .on_too_long = jobspec::OnTooLong::kTruncate,
               .on_bad_sample = jobspec::OnBadSample::kSkip};
  spec.evaluation = {.share = 0.25, .source = "", .every = 2, .samples = 7};
  spec.batch_samples = 5;
  spec.steps = 6;
  spec.seed = 18446744073709551615ULL;
  spec.optimizer = {.lr = 0.1,
                    .warmup = 2,
                    .weight_decay = 0.3,
                    .clip = 0.4,
                    .sharding = jobspec::OptimizerSharding::kZero1};
  spec.precision = jobspec::Precision::kBFloat16;
  spec.policy = planner::Policy::kBucketTuned;
  spec.ranks = 3;
  spec.look_ahead = 2;
  spec.blocks = planner::BlockShape::kContiguous;
  spec.groups_per_rank = 9;
  spec.memory = {.tokens_per_rank = 50, .recompute_layers = 1};
  spec.costs = planner::TimeModel{.micro_batch_fixed_ns = 1,
                                  .linear_ns_per_token = 2.5,
                                  .quadratic_ns_per_token2 = 0.5,
                                  .collective_latency_ns = 3,
                                  .collective = {{2, 0.25}, {4, 0.75}},
                                  .step_fixed_ns = 4,
                                  .gather = {{3, 1.25}}};
  spec.timeouts = {.collective = absl::Milliseconds(1234),
                   .start = absl::Seconds(7),
                   .stop = absl::Seconds(8)};
  return spec;
}

TEST(JobSpecProtoTest, RoundTripKeepsEveryField) {
  const auto again = FromProto(ToProto(Example()));
  ASSERT_TRUE(again.ok()) << again.status();
  // The job file shows every field.
  EXPECT_EQ(FormatJobFile(*again), FormatJobFile(Example()));
}

TEST(JobSpecProtoTest, ARoundTripKeepsWhoChoosesWhatIsRecomputed) {
  jobspec::JobSpec spec = Example();
  spec.model.name.clear();  // such models say fixed
  spec.memory.recompute = jobspec::Recompute::kPlan;
  const auto again = FromProto(ToProto(spec));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->memory.recompute, jobspec::Recompute::kPlan);
  EXPECT_EQ(FormatJobFile(*again), FormatJobFile(spec));
}

TEST(JobSpecProtoTest, AbsentCostsAndTimeoutsStayAbsentOrDefault) {
  jobspec::JobSpec spec = Example();
  spec.costs.reset();
  spec.timeouts.collective.reset();
  v1::JobSpec proto = ToProto(spec);
  EXPECT_FALSE(proto.has_costs());
  EXPECT_FALSE(FromProto(proto)->costs.has_value());
  EXPECT_FALSE(FromProto(proto)->timeouts.collective.has_value());
  proto.clear_timeouts();
  EXPECT_EQ(FromProto(proto)->timeouts.start, absl::Minutes(5));
}

// A job that was stored before there were such fields.
TEST(JobSpecProtoTest, AbsentNamesMeanTheDefaults) {
  v1::JobSpec proto = ToProto(Example());
  proto.clear_precision();
  proto.mutable_model()->clear_attention();
  proto.mutable_optimizer()->clear_sharding();
  const auto spec = FromProto(proto);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->precision, jobspec::Precision::kFloat32);
  EXPECT_EQ(spec->model.attention, jobspec::Attention::kCausal);
  EXPECT_EQ(spec->optimizer.sharding, jobspec::OptimizerSharding::kNone);
}

TEST(JobSpecProtoTest, BrokenRulesAndUnknownNamesAreRefusedWithTheField) {
  const struct {
    std::function<void(v1::JobSpec&)> change;
    const char* message;
  } cases[] = {
      {[](v1::JobSpec& p) { p.clear_model(); }, "model.layers: 0"},
      {[](v1::JobSpec& p) { p.set_policy("evener"); }, "policy: "},
      {[](v1::JobSpec& p) { p.set_precision("float8"); },
       "precision: 'float8' is unknown"},
      {[](v1::JobSpec& p) { p.mutable_model()->set_attention("half"); },
       "model.attention: "},
      {[](v1::JobSpec& p) {
         p.mutable_model()->add_sp_modes(v1::SP_MODE_UNSPECIFIED);
       },
       "model.sp_modes: 0 is unknown"},
      {[](v1::JobSpec& p) {
         p.mutable_model()->add_sp_modes(v1::SP_MODE_SWITCH);
       },
       "model.sp_modes: switch is not for text models"},
      {[](v1::JobSpec& p) {
         p.mutable_model()->add_sp_modes(v1::SP_MODE_BOTH);
       },
       "model.sp_modes: both stands twice"},
      {[](v1::JobSpec& p) { p.mutable_optimizer()->set_sharding("zero4"); },
       "optimizer.sharding: "},
      {[](v1::JobSpec& p) { p.mutable_data()->set_on_too_long(""); },
       "data.on_too_long: ''"},
      {[](v1::JobSpec& p) { p.mutable_data()->set_on_bad_sample("x"); },
       "data.on_bad_sample: 'x'"},
      {[](v1::JobSpec& p) { p.set_kind(""); }, "kind: ''"},
      {[](v1::JobSpec& p) { p.set_ranks(-1); }, "ranks: -1"},
      {[](v1::JobSpec& p) { p.mutable_timeouts()->set_start_ms(-5); },
       "timeouts.start: "},
      {[](v1::JobSpec& p) { p.mutable_costs()->set_collective_latency_ns(-1); },
       "collective_latency_ns: -1"},
  };
  for (const auto& one : cases) {
    v1::JobSpec proto = ToProto(Example());
    one.change(proto);
    const auto spec = FromProto(proto);
    EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(one.message));
  }
}

TEST(DataSummaryProtoTest, RoundTripKeepsEveryCount) {
  const data::DatasetSummary summary = {.num_samples = 1,
                                        .num_too_long = 2,
                                        .num_bad = 3,
                                        .num_truncated = 4,
                                        .longest = 5,
                                        .total_tokens = 6,
                                        .content_key = 1ULL << 63,
                                        .left_out = {7, 8, 9, 10, 11}};
  const auto again = FromProto(ToProto(summary));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->num_samples, 1);
  EXPECT_EQ(again->num_too_long, 2);
  EXPECT_EQ(again->num_bad, 3);
  EXPECT_EQ(again->num_truncated, 4);
  EXPECT_EQ(again->longest, 5);
  EXPECT_EQ(again->total_tokens, 6);
  EXPECT_EQ(again->content_key, 1ULL << 63);
  EXPECT_EQ(again->left_out.hidden, 7);
  EXPECT_EQ(again->left_out.own, 8);
  EXPECT_EQ(again->left_out.tools, 9);
  EXPECT_EQ(again->left_out.links, 10);
  EXPECT_EQ(again->left_out.json, 11);
}

TEST(DataSummaryProtoTest, CountsBelowZeroAreRefused) {
  v1::DataSummary proto;
  proto.set_num_bad(-1);
  EXPECT_THAT(FromProto(proto).status().ToString(), HasSubstr("count of -1"));
}

}  // namespace
}  // namespace evenstep::wire
