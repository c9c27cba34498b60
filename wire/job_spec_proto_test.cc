#include "wire/job_spec_proto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "absl/strings/escaping.h"
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
  spec.costs->head_ns_per_token = 5.5;
  spec.costs->attention_ns_per_token = 0.5;
  spec.costs->sharded_attention_ns_per_token = 0.75;
  spec.costs->collective_latency_across_ns = 6;
  spec.costs->collective_across = {{4, 1.5}};
  spec.costs->gather_across = {{2, 2}, {8, 2.5}};
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

TEST(JobSpecProtoTest, ARoundTripKeepsTheCostsOfBothKindsOfModels) {
  EXPECT_EQ(*FromProto(ToProto(*Example().costs)), *Example().costs);
  planner::TimeModel video;
  video.spatial = {4, 3, 2, 1};
  video.temporal = {8, 7, 6, 5};
  EXPECT_EQ(*FromProto(ToProto(video)), video);
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

// Jobs are stored and sent by numbers of fields and by words.
TEST(JobSpecProtoTest, TheBytesAreThoseOfEarlierVersions) {
  jobspec::JobSpec spec = Example();
  // Costs that are not in those bytes.
  spec.costs->head_ns_per_token = 0;
  spec.costs->attention_ns_per_token = 0;
  spec.costs->sharded_attention_ns_per_token = 0;
  spec.costs->collective_latency_across_ns = 0;
  spec.costs->collective_across.clear();
  spec.costs->gather_across.clear();
  EXPECT_EQ(absl::BytesToHexString(ToProto(spec).SerializeAsString()),
            "0a036a6f621205747261696e1a50080310401804200228ac02320466756c6c3a"
            "02020340014a047465787458016a036f776e72142f772f6d6f64656c2e736166"
            "6574656e736f7273786081010000000080841e4189018dedb5a0f7c6b03e2225"
            "0a07746578743a2f6410631a087472756e636174652204736b69702a082f742e"
            "6d6f64656c2a020805300638ffffffffffffffffff014224099a9999999999b9"
            "3f100219333333333333d33f219a9999999999d93f2a057a65726f314a0c6275"
            "636b65742d74756e656450035802620b083210011a0566697865646a3f080111"
            "000000000000044019000000000000e03f20032a0b080211000000000000d03f"
            "2a0b080411000000000000e83f3004420b080311000000000000f43f720908d2"
            "0910d83618c03e7a0862666c6f6174313692010a636f6e746967756f75739801"
            "09a2010d09000000000000d03f18022007");
}

// Whoever gets the message says what is wrong.
TEST(JobSpecProtoTest, ValuesThatBreakARuleAreSentAsTheyAre) {
  jobspec::JobSpec spec = Example();
  spec.optimizer.lr = std::numeric_limits<double>::quiet_NaN();
  spec.optimizer.clip = -std::numeric_limits<double>::infinity();
  spec.timeouts.start = -absl::Seconds(1);
  spec.timeouts.stop = absl::InfiniteDuration();
  spec.steps = std::numeric_limits<int64_t>::min();
  const v1::JobSpec proto = ToProto(spec);
  EXPECT_TRUE(std::isnan(proto.optimizer().lr()));
  EXPECT_TRUE(std::isinf(proto.optimizer().clip()));
  EXPECT_EQ(proto.timeouts().start_ms(), -1000);
  EXPECT_EQ(proto.timeouts().stop_ms(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(proto.steps(), std::numeric_limits<int64_t>::min());
  EXPECT_THAT(FromProto(proto).status().ToString(),
              HasSubstr("optimizer.lr: 'nan' is not a number"));
}

// A job that was stored before there were such fields.
TEST(JobSpecProtoTest, AbsentFieldsMeanTheDefaults) {
  v1::JobSpec proto = ToProto(Example());
  proto.clear_precision();
  proto.clear_blocks();
  proto.clear_groups_per_rank();
  proto.mutable_model()->clear_attention();
  proto.mutable_model()->clear_kind();
  proto.mutable_model()->clear_patch();
  proto.mutable_model()->clear_rope_theta();
  proto.mutable_model()->clear_norm_epsilon();
  proto.mutable_memory()->clear_recompute();
  proto.mutable_optimizer()->clear_sharding();
  const auto spec = FromProto(proto);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->precision, jobspec::Precision::kFloat32);
  EXPECT_EQ(spec->model.attention, jobspec::Attention::kCausal);
  EXPECT_EQ(spec->optimizer.sharding, jobspec::OptimizerSharding::kNone);
  EXPECT_EQ(spec->blocks, planner::BlockShape::kAligned);
  EXPECT_EQ(spec->groups_per_rank, 16);
  EXPECT_EQ(spec->model.kind, jobspec::ModelKind::kText);
  EXPECT_EQ(spec->model.patch, 1);
  EXPECT_EQ(spec->model.rope_theta, jobspec::kRopeTheta);
  EXPECT_EQ(spec->model.norm_epsilon, jobspec::kNormEpsilon);
  EXPECT_EQ(spec->memory.recompute, jobspec::Recompute::kFixed);
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
       "model.sp_modes: both is listed twice"},
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
                                        .left_out = {7, 8, 9, 10, 11},
                                        .unread = {}};
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
