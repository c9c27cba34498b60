#include "planner/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "planner/limits.h"
#include "planner/planner.h"
#include "planner/testing/random_request.h"

namespace evenstep::planner {
namespace {

using ::testing::HasSubstr;

PlanRequest Good() { return testing::SimpleRequest(4, 100, {10, 20, 30}); }

void ExpectRefused(const PlanRequest& request, const std::string& sentence) {
  for (const absl::Status& status :
       {ValidateRequest(request), MakePlan(request).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << sentence;
    EXPECT_THAT(std::string(status.message()), HasSubstr(sentence));
  }
}

TEST(ValidateTest, AGoodRequestPasses) {
  EXPECT_TRUE(ValidateRequest(Good()).ok());
}

TEST(ValidateTest, LengthZeroIsABadSampleNamedById) {
  PlanRequest request = Good();
  request.samples[1] = {77, 0, 0};
  ExpectRefused(request, "sample 77 has a length of 0 tokens");
}

TEST(ValidateTest, MoreTrainedTokensThanLengthAreRefused) {
  PlanRequest request = Good();
  request.samples[2].trained_tokens = 31;
  ExpectRefused(request, "sample 2 has 31 trained tokens");
}

TEST(ValidateTest, DuplicateIdsAreRefused) {
  PlanRequest request = Good();
  request.samples[2].id = 0;
  ExpectRefused(request, "sample id 0 occurs more than once");
}

TEST(ValidateTest, ASampleAboveTheRunsMaxLengthIsRefused) {
  PlanRequest request = Good();
  request.run.max_length = 29;
  ExpectRefused(request, "sample 2 has 30 tokens, more than the run's");
}

TEST(ValidateTest, AStepWithoutTrainedTokensIsRefused) {
  PlanRequest request = Good();
  for (Sample& sample : request.samples) sample.trained_tokens = 0;
  ExpectRefused(request, "has no divisor");
}

TEST(ValidateTest, OneFullyMaskedSampleIsAccepted) {
  PlanRequest request = Good();
  request.samples[0].trained_tokens = 0;
  auto plan = MakePlan(request);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->trained_tokens, 50);
}

TEST(ValidateTest, AStepWithoutSamplesIsRefused) {
  PlanRequest request = Good();
  request.samples.clear();
  ExpectRefused(request, "number of samples is 0");
}

TEST(ValidateTest, ZeroRanksAreRefused) {
  PlanRequest request = Good();
  request.cluster.ranks_per_node = {};
  ExpectRefused(request, "number of ranks is 0");
  request.cluster.ranks_per_node = {4, 0};
  ExpectRefused(request, "ranks of a node");
}

TEST(ValidateTest, RankCountsThatOverflowAreRefused) {
  PlanRequest request = Good();
  request.cluster.ranks_per_node.assign(1 << 20, kMaxRanks);
  ExpectRefused(request, "number of ranks is 17179869184");
}

TEST(ValidateTest, SpeedsThatAreNoSpeedsAreRefused) {
  PlanRequest request = Good();
  request.cluster.rank_speed = {1, 1};
  ExpectRefused(request, "has 2 entries for 4 ranks");
  for (double bad : {0.0, -1.0, 1e9, std::nan("")}) {
    request.cluster.rank_speed = {1, 1, 1, bad};
    ExpectRefused(request, "speed of rank 3");
  }
}

TEST(ValidateTest, ATimeModelThatWasLeftOutIsRefused) {
  PlanRequest request = Good();
  request.time = {};
  ExpectRefused(request, "time: every cost of a text model is 0");
  request.time.step_fixed_ns = 5;  // the same for every plan
  ExpectRefused(request, "time: every cost of a text model is 0");
  request.time.spatial.linear_ns_per_token = 5;
  ExpectRefused(request, "time: every cost of a text model is 0");
  request.time.collective = {{2, 1e-3}};
  EXPECT_TRUE(ValidateRequest(request).ok());
  request = testing::AsVideo(Good(), 3);
  request.time = Good().time;
  ExpectRefused(request, "time: every cost of a video model is 0");
  request = Good();
  request.time = {};
  EXPECT_TRUE(CheckFits(30, request).ok());
}

TEST(ValidateTest, CostsThatAreNoCostsAreRefused) {
  const std::vector<double> bad_costs = {
      -1, 1e300, std::nan(""), std::numeric_limits<double>::infinity()};
  for (double bad : bad_costs) {
    PlanRequest request = Good();
    request.time.linear_ns_per_token = bad;
    ExpectRefused(request, "time.linear_ns_per_token");
    request = Good();
    request.time.quadratic_ns_per_token2 = bad;
    ExpectRefused(request, "time.quadratic_ns_per_token2");
    request = Good();
    request.time.collective = {{2, bad}};
    ExpectRefused(request, "time.collective: at degree 2");
  }
}

TEST(ValidateTest, CostsOfKindsHeadsAndGathersThatAreNoCostsAreRefused) {
  for (double bad : {-1.0, 1e300, std::nan("")}) {
    PlanRequest request = Good();
    request.time.head_ns_per_token = bad;
    ExpectRefused(request, "time.head_ns_per_token");
    request = Good();
    request.time.attention_ns_per_token = bad;
    ExpectRefused(request, "time.attention_ns_per_token");
    request = Good();
    request.time.sharded_attention_ns_per_token = bad;
    ExpectRefused(request, "time.sharded_attention_ns_per_token");
    request = Good();
    request.time.temporal.quadratic_ns_per_token2 = bad;
    ExpectRefused(request, "time.temporal_quadratic_ns_per_token2");
    request = Good();
    request.time.gather_across = {{2, bad}};
    ExpectRefused(request, "time.gather_across: at degree 2");
  }
}

TEST(ValidateTest, ShapesThatAreNotTheLengthAreRefusedWithTheNumbers) {
  PlanRequest request = Good();
  request.samples = {{7, 60, 60, 10, 2, 3}};
  EXPECT_TRUE(ValidateRequest(request).ok());
  request.samples[0].width = 4;
  ExpectRefused(request, "sample 7 has 10 frames of 2 x 4 patches");
  for (int64_t bad : {int64_t{0}, int64_t{-3}, INT64_MIN, INT64_MAX}) {
    request.samples[0].height = bad;
    ExpectRefused(request, "sample 7 has 10 frames");
  }
  request.samples = {{7, 60, 60}};
  request.model.spatial_layers = 1;
  ExpectRefused(request, "sample 7 has no frames");
}

TEST(ValidateTest, ModesOfAnotherKindOfModelAreRefused) {
  PlanRequest request = Good();
  request.model.sp_modes = {SpMode::kSwitch};
  ExpectRefused(request, "not a mode of a text model");
  request.model.sp_modes = {static_cast<SpMode>(9)};
  ExpectRefused(request, "has an entry 9");
  request.model.sp_modes = {SpMode::kKvGather};
  request.model.spatial_layers = 1;
  request.samples = {{7, 60, 60, 10, 2, 3}};
  ExpectRefused(request, "not a mode of a video model");
}

// A million samples are valid (fresh_batches_test plans them); at sixteen
// recompute choices they would not fit memory, and are refused before anything
// is allocated for them.
TEST(ValidateTest, MoreCellsThanTheLimitAreRefused) {
  PlanRequest request = Good();
  request.samples.clear();
  for (int64_t id = 0; id < 1'000'000; ++id)
    request.samples.push_back({id, 1, 1});
  EXPECT_TRUE(ValidateRequest(request).ok());
  request.model.num_layers = 16;
  request.memory = {};
  request.memory.activation_bytes = 1000;
  for (int k = 0; k < 16; ++k) request.options.recompute_choices.push_back(k);
  ExpectRefused(request, "1000000 samples at 3 degrees in 16 modes");
}

TEST(ValidateTest, FixedCostsOutOfRangeAreRefused) {
  for (int64_t bad : {int64_t{-1}, INT64_MAX, INT64_MIN}) {
    PlanRequest request = Good();
    request.time.micro_batch_fixed_ns = bad;
    ExpectRefused(request, "time.micro_batch_fixed_ns");
    request = Good();
    request.time.collective_latency_ns = bad;
    ExpectRefused(request, "time.collective_latency_ns");
    request = Good();
    request.time.step_fixed_ns = bad;
    ExpectRefused(request, "time.step_fixed_ns");
    request = Good();
    request.memory.tokens_per_rank = bad;
    ExpectRefused(request, "memory.tokens_per_rank");
  }
}

TEST(ValidateTest, CollectiveCostsOutOfOrderAreRefused) {
  PlanRequest request = Good();
  request.time.collective = {{4, 1}, {2, 1}};
  ExpectRefused(request, "time.collective: degree 2 after 4");
}

TEST(ValidateTest, ModelsThatAreNoModelsAreRefused) {
  PlanRequest request = Good();
  request.model.heads = 0;
  ExpectRefused(request, "model.heads is 0");
  request = Good();
  request.model.kv_heads = 65;
  ExpectRefused(request, "model.kv_heads is 65");
  request = Good();
  request.model.num_layers = 0;
  ExpectRefused(request, "model.num_layers is 0");
  request = Good();
  request.options.recompute_layers = 2;
  ExpectRefused(request, "options.recompute_layers is 2");
  request = Good();
  request.model.forced_degrees = {0};
  ExpectRefused(request, "model.forced_degrees entry is 0");
}

TEST(ValidateTest, StepsOfCenturiesAreRefused) {
  PlanRequest request = Good();
  request.samples[0] = {0, kMaxLengthTokens, 1};
  request.time.quadratic_ns_per_token2 = kMaxQuadraticNsPerToken2;
  ExpectRefused(request, "the costs are out of range");
}

TEST(ValidateTest, TooManyTokensAreRefused) {
  PlanRequest request = Good();
  request.samples.clear();
  for (int i = 0; i < 300; ++i) {
    request.samples.push_back({i, kMaxLengthTokens, 1});
  }
  ExpectRefused(request, "the step's number of tokens");
}

TEST(ValidateTest, OptionsOutOfRangeAreRefused) {
  PlanRequest request = Good();
  request.options.sync = static_cast<SyncMode>(7);
  ExpectRefused(request, "options.sync is unknown: 7");
  request = Good();
  request.options.blocks = static_cast<BlockShape>(7);
  ExpectRefused(request, "options.blocks is unknown: 7");
  request = Good();
  request.options.max_groups_per_rank = -1;
  ExpectRefused(request, "options.max_groups_per_rank is -1");
  request = Good();
  request.cluster.ranks_per_node = {kMaxContiguousRanks + 1};
  request.options.blocks = BlockShape::kContiguous;
  ExpectRefused(request, "number of ranks with contiguous blocks is 513");
}

TEST(ValidateTest, MemoryOfNothingIsRefused) {
  PlanRequest request = Good();
  request.memory.tokens_per_rank = 0;
  ExpectRefused(request, "memory.tokens_per_rank is 0");
  request.memory.activation_bytes = 10;
  request.memory.layer_bytes_per_token = 11;
  ExpectRefused(request, "less than one token takes with 0 layers recomputed");
  request.memory.layer_bytes_per_token = -1;
  ExpectRefused(request, "memory.layer_bytes_per_token is -1");
  request.memory.layer_bytes_per_token = 11;
  request.memory.kv_head_bytes_per_token = (1 << 26) + 1;
  ExpectRefused(request, "memory.kv_head_bytes_per_token is 67108865");
  request = Good();
  request.options.recompute_choices = {0, 2};
  ExpectRefused(request, "options.recompute_choices entry is 2");
  request.options.recompute_choices.assign(17, 0);
  ExpectRefused(request, "options.recompute_choices has 17 entries");
}

TEST(ValidateTest, GatheredBytesAreBoundedByTheHeadsThatMayBeCopied) {
  PlanRequest request = Good();
  request.model.kv_heads = 2;
  request.memory.gathered_bytes_per_token = 1 << 27;
  EXPECT_TRUE(ValidateRequest(request).ok());
  request.memory.gathered_bytes_per_token += 1;
  ExpectRefused(request, "memory.gathered_bytes_per_token is 134217729");
  request.memory.gathered_bytes_per_token = -1;
  ExpectRefused(request, "memory.gathered_bytes_per_token is -1");
}

TEST(ValidateTest, AnUnknownPolicyIsRefused) {
  PlanRequest request = Good();
  request.options.policy = static_cast<Policy>(99);
  EXPECT_EQ(MakePlan(request).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Some field of every kind is set to an absurd value: an error or a valid plan,
// never a crash, a hang or an overflow (the sanitizers watch).
TEST(ValidateTest, AbsurdRequestsGiveErrorsOrValidPlans) {
  const std::vector<int64_t> absurd = {
      INT64_MIN, INT32_MIN,        -1,         0, 1, 2, 1000, INT32_MAX,
      INT64_MAX, kMaxLengthTokens, kMaxFixedNs};
  const std::vector<double> odd = {
      -1,  0,     1e-300,       1,
      1e9, 1e300, std::nan(""), std::numeric_limits<double>::infinity()};
  std::mt19937_64 engine(7);
  auto whole = [&] { return absurd[engine() % absurd.size()]; };
  auto small = [&] { return static_cast<int>(whole()); };
  auto real = [&] { return odd[engine() % odd.size()]; };
  int planned = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    PlanRequest request = testing::RandomRequest(seed, {8, 20});
    switch (engine() % 12) {
      case 0:
        request.samples[0].length = whole();
        break;
      case 1:
        request.samples[0].trained_tokens = whole();
        break;
      case 2:
        request.samples[0].id = whole();
        break;
      case 3:
        request.run.max_length = whole();
        break;
      case 4:
        request.cluster.ranks_per_node = {small()};
        break;
      case 5:
        request.model.heads = request.model.kv_heads = small();
        break;
      case 6:
        request.model.num_layers = small();
        break;
      case 7:
        request.time.micro_batch_fixed_ns = whole();
        break;
      case 8:
        request.time.linear_ns_per_token = real();
        break;
      case 9:
        request.time.quadratic_ns_per_token2 = real();
        break;
      case 10:
        request.memory.tokens_per_rank = whole();
        break;
      default:
        request.time.collective = {{small(), real()}};
        break;
    }
    auto plan = MakePlan(request);
    if (!plan.ok()) continue;
    ++planned;
    EXPECT_TRUE(CheckPlan(request, *plan).ok()) << CheckPlan(request, *plan);
  }
  EXPECT_GT(planned, 50);
}

TEST(ValidateTest, HeadsThatKAndVHeadsDoNotDivideAreRefused) {
  PlanRequest request = testing::SimpleRequest(2, 100, {5});
  request.model.heads = 32;
  request.model.kv_heads = 5;
  const absl::Status status = ValidateRequest(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("model.kv_heads is 5"));
  request.model.kv_heads = 8;
  EXPECT_TRUE(ValidateRequest(request).ok());
}

}  // namespace
}  // namespace evenstep::planner
