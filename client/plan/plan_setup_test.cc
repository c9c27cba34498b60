#include "client/plan/plan_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/memory_model.h"
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
  EXPECT_EQ(planner::TokensPerRank(*request, 3), 6449);
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

TEST(PlanSetupTest, UnknownCostsNameTheKnownOnes) {
  const auto costs = LoadCosts("h100");
  EXPECT_EQ(costs.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(costs.status().message(), HasSubstr("flexsp-7b-a100"));
}

}  // namespace
}  // namespace evenstep::plan
