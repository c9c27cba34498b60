#include "client/plan/plan_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "planner/costs/degrees.h"
#include "planner/costs/memory_model.h"
#include "planner/planner.h"

namespace evenstep::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int> Nodes(int num_gpus, std::vector<int> gpus_per_node) {
  PlanSetup setup;
  setup.num_gpus = num_gpus;
  setup.gpus_per_node = std::move(gpus_per_node);
  auto nodes = NodesOf(setup);
  EXPECT_TRUE(nodes.ok()) << nodes.status();
  return nodes.ok() ? *nodes : std::vector<int>();
}

std::string NodesError(int num_gpus, std::vector<int> gpus_per_node) {
  PlanSetup setup;
  setup.num_gpus = num_gpus;
  setup.gpus_per_node = std::move(gpus_per_node);
  const auto nodes = NodesOf(setup);
  EXPECT_EQ(nodes.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(nodes.status().message());
}

TEST(PlanSetupTest, GpusAreDealtToNodes) {
  EXPECT_THAT(Nodes(0, {}), ElementsAre(8));
  EXPECT_THAT(Nodes(20, {}), ElementsAre(8, 8, 4));
  EXPECT_THAT(Nodes(16, {4}), ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(Nodes(0, {4}), ElementsAre(4));
  EXPECT_THAT(Nodes(0, {7, 8}), ElementsAre(7, 8));
  EXPECT_THAT(Nodes(15, {7, 8}), ElementsAre(7, 8));
}

TEST(PlanSetupTest, NodesThatDoNotFitTheGpusAreRefused) {
  EXPECT_THAT(NodesError(16, {7, 8}), HasSubstr("7 + 8 = 15 GPUs, not 16"));
  EXPECT_THAT(NodesError(8, {0}), HasSubstr("a node has 0 GPUs"));
  EXPECT_THAT(NodesError(-1, {}), HasSubstr("-1 GPUs"));
  EXPECT_THAT(NodesError(1 << 30, {}), HasSubstr("1073741824 GPUs"));
}

absl::StatusOr<planner::PlanRequest> Build(const PlanSetup& setup) {
  auto costs = LoadCosts(setup.costs);
  EXPECT_TRUE(costs.ok()) << costs.status();
  return BuildRequest(setup, *costs, {{100, 0, 0, 0}, {2000, 0, 0, 0}});
}

TEST(PlanSetupTest, FlagsOverrideWhatTheCostsSay) {
  PlanSetup setup;
  setup.costs = "flexsp-7b-a100";
  setup.num_gpus = 64;
  setup.recompute = RecomputeChoice::kFixed;
  setup.recompute_layers = 3;
  setup.tokens_per_gpu = 6449;
  setup.micro_batch_fixed_ms = 20;
  setup.degrees = {1, 2, 4, 8, 16, 32, 64};
  setup.max_length = 5000;
  setup.max_groups_per_rank = 4;
  setup.work_budget = 77;
  setup.rank_speed = {{5, 0.8}};
  auto request = Build(setup);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(planner::TokensPerRank(*request, 0), 6449);
  EXPECT_GT(planner::TokensPerRank(*request, 3), 6449);
  EXPECT_EQ(request->time.micro_batch_fixed_ns, 20'000'000);
  EXPECT_EQ(request->options.recompute_layers, 3);
  EXPECT_EQ(request->run.max_length, 5000);
  EXPECT_EQ(request->options.max_groups_per_rank, 4);
  EXPECT_EQ(request->options.work_budget, 77);
  EXPECT_EQ(request->cluster.rank_speed[5], 0.8);
  EXPECT_EQ(request->cluster.rank_speed[6], 1);
  EXPECT_EQ(planner::LegalDegrees(*request).back(), 64);
}

TEST(PlanSetupTest, AStatedCapIsWhatFitsWithNothingRecomputed) {
  PlanSetup setup;
  setup.num_gpus = 8;
  setup.tokens_per_gpu = 5000;
  auto request = Build(setup);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(planner::TokensPerRank(*request, 0), 5000);
  EXPECT_GT(planner::TokensPerRank(*request, 24), 20000);
  EXPECT_EQ(planner::RecomputeModes(*request).size(), 5u);
}

std::string BuildError(const PlanSetup& setup) {
  const auto request = Build(setup);
  EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(request.status().message());
}

TEST(PlanSetupTest, AbsurdNumbersAreRefused) {
  PlanSetup setup;
  setup.tokens_per_gpu = -5;
  EXPECT_THAT(BuildError(setup), HasSubstr("tokens per GPU are -5"));
  setup = {};
  setup.micro_batch_fixed_ms = 1e300;
  EXPECT_THAT(BuildError(setup), HasSubstr("1e+300 ms"));
  setup = {};
  setup.rank_speed = {{8, 1.0}};
  EXPECT_THAT(BuildError(setup), HasSubstr("the ranks are 0 to 7"));
  setup.rank_speed = {{0, 0.0}};
  EXPECT_THAT(BuildError(setup), HasSubstr("speed"));
  setup = {};
  setup.degrees = {0};
  EXPECT_FALSE(BuildError(setup).empty());
  setup = {};
  setup.recompute = RecomputeChoice::kFixed;
  setup.recompute_layers = 1000;
  EXPECT_THAT(BuildError(setup), HasSubstr("1000"));
}

TEST(PlanSetupTest, DegreesThatCannotBeAreRefusedWithTheReason) {
  PlanSetup setup;
  setup.num_gpus = 6;
  setup.degrees = {1, 6};
  EXPECT_TRUE(Build(setup).ok());
  setup.degrees = {1, 3};
  EXPECT_THAT(BuildError(setup), HasSubstr("or all 6 GPUs"));
  setup.blocks = planner::BlockShape::kContiguous;
  EXPECT_TRUE(Build(setup).ok());
  setup.degrees = {8};
  EXPECT_THAT(BuildError(setup), HasSubstr("the GPUs are 6"));
  setup = {};
  setup.num_gpus = 8;
  setup.degrees = {1, 8};
  auto costs = *LoadCosts("h200-1.2b-2d");
  costs.model.sp_modes.clear();
  costs.model.max_switch_degree = 4;
  const auto video = BuildRequest(setup, costs, {{3600, 1, 45, 80}});
  EXPECT_THAT(video.status().message(), HasSubstr("no mode of sequence"));
}

TEST(PlanSetupTest, TokensOfMoreBytesThanAnyGpuHasAreRefusedWithTheNumbers) {
  PlanSetup setup;
  setup.tokens_per_gpu = 268435456;
  auto costs = *LoadCosts(setup.costs);
  costs.memory = {};
  costs.memory.tokens_per_rank = 1;
  costs.memory.layer_bytes_per_token = int64_t{1} << 40;
  costs.model.num_layers = 128;
  const auto request = BuildRequest(setup, costs, {{100, 0, 0, 0}});
  EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(request.status().message()),
              HasSubstr("268435456 tokens per GPU of 140737488355328 bytes"));
}

TEST(PlanSetupTest, ACostFileIsReadAndWhatItLacksIsNamed) {
  const std::string path =
      (std::filesystem::temp_directory_path() /
       ("plan_setup." + std::to_string(getpid()) + ".yaml"))
          .string();
  std::ofstream(path)
      << "name: mine\n"
         "model: {num_layers: 4, width: 256, heads: 4}\n"
         "time: {micro_batch_fixed_ns: 0, linear_ns_per_token: 1000, "
         "quadratic_ns_per_token2: 0}\n"
         "memory: {tokens_per_rank: 4096}\n";
  const auto costs = LoadCosts(path);
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_EQ(costs->name, "mine");
  EXPECT_EQ(costs->memory.tokens_per_rank, 4096);
  std::ofstream(path) << "time: {linear_ns_per_token: fast}\n";
  const auto wrong = LoadCosts(path);
  std::filesystem::remove(path);
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(wrong.status().message(), HasSubstr("model"));
}

TEST(PlanSetupTest, VideoSamplesReachAVideoModelAndTheirTokensATextModel) {
  const std::vector<data::LengthDraw> clips = {{432000, 120, 45, 80}};
  PlanSetup setup;
  setup.costs = "h200-1.2b-2d";
  setup.num_gpus = 32;
  auto video = BuildRequest(setup, *LoadCosts(setup.costs), clips);
  ASSERT_TRUE(video.ok()) << video.status();
  EXPECT_EQ(video->samples[0].frames, 120);
  EXPECT_EQ(planner::RecomputeModes(*video).size(), 9u);
  auto text = BuildRequest(setup, *LoadCosts("h200-1.2b-1d"), clips);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->samples[0].frames, 0);
  EXPECT_EQ(text->samples[0].length, 432000);
  auto no_frames = BuildRequest(setup, *LoadCosts(setup.costs), {{8, 0, 0, 0}});
  EXPECT_THAT(no_frames.status().message(), HasSubstr("frames"));
}

TEST(PlanSetupTest, ClipsAreNotPlannedAsText) {
  StepLengths lengths;
  lengths.origin = "clips.txt";
  PlanSetup setup;
  EXPECT_EQ(LoadCostsFor(setup, lengths)->name, kDefaultCosts);
  lengths.has_clips = true;
  EXPECT_EQ(LoadCostsFor(setup, lengths)->name, kDefaultVideoCosts);
  setup.costs = "h200-1.2b-2d";
  EXPECT_EQ(LoadCostsFor(setup, lengths)->name, setup.costs);
  setup.costs = "h200-1.2b-1d";
  const auto text = LoadCostsFor(setup, lengths);
  EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(text.status().message()),
              HasSubstr("clips.txt has clips, and --costs h200-1.2b-1d"));
  lengths.samples = {{9, 0, 0, 0}};
  setup.costs = "h200-1.2b-2d";
  EXPECT_THAT(std::string(LoadCostsFor(setup, lengths).status().message()),
              HasSubstr("a sample of 9 tokens without frames"));
}

TEST(PlanSetupTest, UnknownCostsNameTheKnownOnes) {
  const auto costs = LoadCosts("h100");
  EXPECT_EQ(costs.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(costs.status().message(), HasSubstr("flexsp-7b-a100"));
}

}  // namespace
}  // namespace evenstep::plan
