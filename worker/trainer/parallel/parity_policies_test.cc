// Law 2 for what the planner really makes: every policy on every world, through
// the wire and back, on ranks that are threads. Lengths are uneven, 1 and 2
// tokens among them, and the longest needs several ranks.

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "planner/planner.h"
#include "wire/step_plan.h"
#include "worker/trainer/testing/expect_parity.h"

namespace evenstep::trainer {
namespace {

using planner::BlockShape;
using planner::Policy;
using testing::ExpectParity;
using testing::ParityOptions;
using testing::SmallConfig;
using testing::TestMicroBatch;

planner::PlanRequest Request(Policy policy, int world, BlockShape blocks) {
  planner::PlanRequest request;
  const std::vector<int64_t> lengths = {57, 1, 2,  30, 9,  2,  17, 44,
                                        1,  5, 23, 3,  12, 38, 6,  20};
  for (size_t i = 0; i < lengths.size(); ++i) {
    request.samples.push_back(
        {static_cast<int64_t>(i), lengths[i], lengths[i] - 1});
  }
  request.run.max_length = 60;
  request.cluster.ranks_per_node = {world};
  const DecoderConfig config = SmallConfig();
  request.model.num_layers = config.layers;
  request.model.width = config.width;
  request.model.heads = config.heads;
  request.model.kv_heads = config.kv_heads;
  request.model.sp_modes = {planner::SpMode::kUlysses,
                            planner::SpMode::kKvGather};
  request.time.micro_batch_fixed_ns = 1000;
  request.time.linear_ns_per_token = 100;
  request.time.quadratic_ns_per_token2 = 10;
  request.time.collective_latency_ns = 50;
  request.memory.tokens_per_rank = 36;
  request.options.policy = policy;
  request.options.blocks = blocks;
  request.options.recompute_layers = 1;
  return request;
}

using Case = std::tuple<Policy, int, BlockShape>;

class ParityPoliciesTest : public ::testing::TestWithParam<Case> {};

TEST_P(ParityPoliciesTest, EveryPolicysPlanGivesTheSameGradient) {
  const auto [policy, world, blocks] = GetParam();
  const planner::PlanRequest request = Request(policy, world, blocks);
  const auto plan = planner::MakePlan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto sent = wire::FromProto(wire::ToProto(
      wire::MakeStepPlan(request, *plan, 1, 0, planner::PolicyName(policy))));
  ASSERT_TRUE(sent.ok()) << sent.status();
  ParityOptions options;
  options.config = SmallConfig();
  options.world = world;
  options.steps.emplace_back();
  for (const wire::PlannedMicroBatch& planned : sent->micro_batches) {
    options.steps[0].push_back({planned.first_rank, planned.degree,
                                planned.lengths, planned.recompute_layers,
                                planned.ulysses_degree});
  }
  ExpectParity(options);
}

INSTANTIATE_TEST_SUITE_P(
    All, ParityPoliciesTest,
    ::testing::Combine(
        ::testing::Values(Policy::kStatic, Policy::kBalanced, Policy::kPacked,
                          Policy::kEven, Policy::kBucket, Policy::kBucketTuned,
                          Policy::kDcpInter, Policy::kDcpIntra),
        ::testing::Values(2, 3, 4, 8),
        ::testing::Values(BlockShape::kAligned, BlockShape::kContiguous)),
    [](const ::testing::TestParamInfo<Case>& info) {
      return absl::StrCat(
          absl::StrReplaceAll(planner::PolicyName(std::get<0>(info.param)),
                              {{"-", "_"}}),
          "_", std::get<1>(info.param),
          std::get<2>(info.param) == BlockShape::kAligned ? "_aligned"
                                                          : "_contiguous");
    });

}  // namespace
}  // namespace evenstep::trainer
