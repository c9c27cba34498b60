#include "planner/costs/cost_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "planner/costs/cost_fields.h"
#include "planner/models/published_costs.h"
#include "planner/planner.h"
#include "planner/testing/random_request.h"

namespace evenstep::planner {
namespace {

using ::testing::HasSubstr;

constexpr char kText[] = R"(name: mine
model: {num_layers: 4, width: 256, heads: 8, sp_modes: [ulysses, kv_gather]}
time:
  micro_batch_fixed_ns: 1000
  linear_ns_per_token: 10.5
  quadratic_ns_per_token2: 0.25
  attention_ns_per_token: 2
  sharded_attention_ns_per_token: 1
  head_ns_per_token: 3
  collective: [{degree: 2, ns_per_token: 4}]
  gather_across: [{degree: 2, ns_per_token: 5}]
memory: {tokens_per_rank: 77}
)";

constexpr char kVideo[] = R"(memory:
  device_bytes: 1000000
  margin: 0.25
  parameters: 1000
  states: zero1_bfloat16
  states_over_ranks: 8
  shard_replicas: 1
  spatial: {layer_bytes_per_token: 10, kept_bytes_per_token: 1,
            backward_bytes_per_token: 4}
time:
  micro_batch_fixed_ns: 1
  spatial: {linear_ns_per_token: 1, quadratic_ns_per_token2: 2}
  temporal: {linear_ns_per_token: 3, quadratic_ns_per_token2: 4}
model: {spatial_layers: 2, temporal_layers: 3, heads: 4, kv_heads: 2}
)";

TEST(CostFileTest, ReadsATextModel) {
  const auto costs = ParseCosts(kText, "f");
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_EQ(costs->name, "mine");
  EXPECT_EQ(costs->model.num_layers, 4);
  EXPECT_EQ(costs->model.kv_heads, 8);
  ASSERT_EQ(costs->model.sp_modes.size(), 2u);
  EXPECT_EQ(costs->model.sp_modes[1], SpMode::kKvGather);
  EXPECT_EQ(costs->time.linear_ns_per_token, 10.5);
  EXPECT_EQ(costs->time.sharded_attention_ns_per_token, 1);
  EXPECT_EQ(costs->time.head_ns_per_token, 3);
  ASSERT_EQ(costs->time.collective.size(), 1u);
  EXPECT_EQ(costs->time.gather_across[0].ns_per_token, 5);
  EXPECT_EQ(costs->memory.tokens_per_rank, 77);
}

TEST(CostFileTest, ReadsAVideoModelWhateverTheOrderOfItsParts) {
  const auto costs = ParseCosts(kVideo, "f");
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_TRUE(costs->model.is_video());
  EXPECT_EQ(costs->model.kv_heads, 2);
  EXPECT_EQ(costs->time.temporal.quadratic_ns_per_token2, 4);
  EXPECT_EQ(costs->memory.spatial.layer_bytes_per_token, 10);
  EXPECT_EQ(costs->memory.spatial.backward_bytes_per_token, 4);
  // 6 + 24 (1 + 1) / 8 bytes a parameter, of three quarters of the device.
  EXPECT_EQ(costs->memory.activation_bytes, 750000 - 12 * 1000);
}

TEST(CostFileTest, BadFilesAreRefusedWithLineKeyAndNumber) {
  const struct {
    const char* text;
    const char* with;
    const char* message;
  } cases[] = {
      {"10.5", "ten", "f:5: linear_ns_per_token: "},
      {"10.5", "nan", "f:5: linear_ns_per_token: "},
      {"10.5", "-1", "f:5: linear_ns_per_token: -1 is not in 0 to 1073741824"},
      {"10.5", "1e300", "f:5: linear_ns_per_token: 1e+300 is not in"},
      {"linear_ns_per_token: 10.5", "attention_ns_per_token: 1",
       "attention_ns_per_token"},
      {"  linear_ns_per_token: 10.5\n", "",
       "f:4: time: linear_ns_per_token is missing"},
      {"heads: 8", "heads: 8.5", "f:2: heads: "},
      {"heads: 8", "heads: 0", "model.heads is 0"},
      {"heads: 8", "head: 8", "f:2: unknown key 'head'; did you mean 'heads'"},
      {"kv_gather", "gather", "'gather' is not one of ulysses"},
      {"kv_gather", "switch", "not a mode of a text model"},
      {"num_layers: 4", "num_layers: 4, spatial_layers: 1",
       "num_layers, or else spatial_layers"},
      {"tokens_per_rank: 77", "head_bytes_per_token: 1",
       "exactly one of tokens_per_rank"},
      {"tokens_per_rank: 77", "tokens_per_rank: 7, activation_bytes: 9",
       "exactly one of tokens_per_rank"},
      {"tokens_per_rank: 77", "device_bytes: 100, parameters: 100",
       "the states of 100 parameters take 1600 bytes"},
      {"tokens_per_rank: 77", "device_bytes: 100, margin: 1", "margin 1"},
      {"attention_ns_per_token: 2", "attention_ns_per_token: 20",
       "f:7: attention_ns_per_token: 20 is not in 0 to 10.5"},
      {"degree: 2, ns_per_token: 4", "degree: 0, ns_per_token: 4",
       "f:10: collective: degree 0 after 0"},
      {"[{degree: 2, ns_per_token: 4}]", "7", "expected a list"},
      {"memory: {tokens_per_rank: 77}", "memory: 7", "expected 'key: value'"},
  };
  for (const auto& one : cases) {
    const std::string text = absl::StrReplaceAll(kText, {{one.text, one.with}});
    const auto costs = ParseCosts(text, "f");
    EXPECT_EQ(costs.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_THAT(std::string(costs.status().message()), HasSubstr(one.message));
  }
}

TEST(CostFileTest, AVideoModelNeedsTheCostsOfBothKindsOfLayer) {
  const std::string text = absl::StrReplaceAll(
      kVideo,
      {{"  temporal: {linear_ns_per_token: 3, quadratic_ns_per_token2: 4}\n",
        ""}});
  EXPECT_THAT(std::string(ParseCosts(text, "f").status().message()),
              HasSubstr("time.temporal is missing"));
}

// Every cost another number, in lists too.
TimeModel AllCosts() {
  TimeModel time;
  time.collective = {{2, 0}, {4, 0}};
  time.gather = {{2, 0}};
  time.collective_across = {{4, 0}};
  time.gather_across = {{2, 0}, {8, 0}};
  double next = 1;
  ForEachCost(time, [&next](const CostKey& key, auto& cost) {
    cost = static_cast<std::decay_t<decltype(cost)>>(
        std::min(next++, key.highest));
  });
  return time;
}

absl::StatusOr<TimeModel> ReadJob(const std::string& text) {
  return ReadJobCosts(*ParseYaml(text, "c"), "c");
}

TEST(JobCostsTest, AJobSaysEveryCostAndReadsItBack) {
  const auto again = ReadJob(FormatTime(AllCosts(), ""));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, AllCosts());
  const auto nested = ReadJob("time:\n" + FormatTime(AllCosts(), "  "));
  ASSERT_TRUE(nested.ok()) << nested.status();
  EXPECT_EQ(*nested, AllCosts());
}

TEST(JobCostsTest, KindsOfLayerAreMapsOrKeys) {
  const std::string fixed =
      "{micro_batch_fixed_ns: 1, collective_latency_ns: 1, step_fixed_ns: 1, ";
  const auto keys = ReadJob(fixed +
                            "spatial_linear_ns_per_token: 1, "
                            "temporal_quadratic_ns_per_token2: 4}");
  ASSERT_TRUE(keys.ok()) << keys.status();
  const std::string maps =
      fixed +
      "spatial: {linear_ns_per_token: 1, quadratic_ns_per_token2: 0}, "
      "temporal: {linear_ns_per_token: 0, quadratic_ns_per_token2: 4}}";
  const auto map = ReadJob(maps);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(*map, *keys);
  const auto both = ReadJob(absl::StrReplaceAll(
      maps, {{"spatial: {", "spatial_attention_ns_per_token: 1, spatial: {"}}));
  EXPECT_THAT(std::string(both.status().message()),
              HasSubstr("spatial: given twice"));
}

TEST(JobCostsTest, CostsMustBeCompleteAndInRange) {
  const std::string whole = FormatTime(AllCosts(), "");
  for (const char* key :
       {"micro_batch_fixed_ns", "collective_latency_ns", "step_fixed_ns"}) {
    std::string missing = whole;
    const size_t line = missing.find(absl::StrCat(key, ": "));
    missing.erase(line, missing.find('\n', line) + 1 - line);
    EXPECT_THAT(std::string(ReadJob(missing).status().message()),
                HasSubstr(absl::StrCat("costs: ", key, " is missing")));
  }
  const std::string spatial = "spatial_quadratic_ns_per_token2: ";
  const auto negative =
      ReadJob(absl::StrReplaceAll(whole, {{spatial, spatial + "-"}}));
  EXPECT_THAT(std::string(negative.status().message()),
              ::testing::ContainsRegex("c:[0-9]+: spatial_quadratic_ns_per_"
                                       "token2: -[0-9]+ is not in 0 to 1024"));
  EXPECT_THAT(std::string(ReadJob(whole + "  - {degree: 4, ns_per_token: 1}\n")
                              .status()
                              .message()),
              HasSubstr("gather_across: degree 4 after 8"));
}

TEST(PublishedCostsTest, ThereAreSevenModelsOfBothKinds) {
  int num_video = 0;
  for (const std::string& name : PublishedCostNames()) {
    const auto costs = FindPublishedCosts(name);
    ASSERT_TRUE(costs.ok()) << name << ": " << costs.status();
    EXPECT_EQ(costs->name, name);
    EXPECT_FALSE(costs->source.empty());
    if (costs->model.is_video()) ++num_video;
  }
  EXPECT_EQ(PublishedCostNames().size(), 7u);
  EXPECT_EQ(num_video, 2);
}

// The numbers in the files follow from the formulas beside them.
TEST(PublishedCostsTest, DerivedConstantsFollowFromTheirFormulas) {
  const auto text = *FindPublishedCosts("h200-1.2b-1d");
  const double share = 3 * 24 * 2048 / 8192.0;
  const double product_ns = 72.0 * 24 * 2048 * 2048 / (0.5 * 989e12) * 1e9;
  EXPECT_NEAR(text.time.linear_ns_per_token, product_ns + share * 53.5, 1e-8);
  EXPECT_NEAR(text.time.quadratic_ns_per_token2, share * 0.0478, 1e-12);
  EXPECT_NEAR(text.time.head_ns_per_token,
              6.0 * 2048 * 50304 / (0.5 * 989e12) * 1e9, 1e-8);
  EXPECT_EQ(text.memory.activation_bytes,
            126'900'000'000 - 16 * int64_t{1'207'959'552});
  const auto video = *FindPublishedCosts("h200-5b-2d");
  EXPECT_NEAR(video.time.temporal.quadratic_ns_per_token2,
              2 * 3 * 22 * 3072 / 8192.0 * 0.0478, 1e-9);
  const auto flexsp = *FindPublishedCosts("flexsp-13b-a100");
  const double unit_ns = 16.0 * 40 * 5120 / (1 << 20) * 1e6;
  EXPECT_NEAR(flexsp.time.collective[2].ns_per_token, unit_ns / 96.5, 1e-8);
}

}  // namespace
}  // namespace evenstep::planner
