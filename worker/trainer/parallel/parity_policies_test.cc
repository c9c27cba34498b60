// Law 2 for what the planner really makes: every policy on every world, through
// the wire and back, on ranks that are threads: three batches in a row, causal
// and full attention, optimizer states whole and split. Lengths are uneven, 1
// and 2 tokens among them, and the longest needs several ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "planner/costs/degrees.h"
#include "planner/planner.h"
#include "worker/trainer/testing/expect_parity.h"
#include "worker/trainer/testing/planned_step.h"

namespace evenstep::trainer {
namespace {

using planner::BlockShape;
using planner::Policy;
using planner::SpMode;
using ::testing::ElementsAre;
using testing::ExpectParity;
using testing::ParityOptions;
using testing::PlannedStep;
using testing::SmallConfig;
using testing::TestMicroBatch;

constexpr int kBatches = 3;

// The first batch has lengths of every kind, one of which needs three ranks,
// under heads exchanged or keys gathered; the second is short, under gathered
// keys; of the third one document fills the world, under exchanged heads and
// both.
planner::PlanRequest Request(Policy policy, int world, BlockShape blocks,
                             int batch) {
  const std::vector<int64_t> lengths[kBatches] = {
      {world == 2 ? 57 : 100, 1, 2, 30, 9, 44, 17, 5},
      {14, 1, 33, 2, 8, 40, 3, 19},
      {10 * world, 2, 7, 1, 9, 11}};
  planner::PlanRequest request;
  for (const int64_t length : lengths[batch]) {
    const auto id = static_cast<int64_t>(request.samples.size());
    request.samples.push_back({id, length, length - 1});
    request.run.max_length = std::max(request.run.max_length, length);
  }
  request.cluster.ranks_per_node = {world};
  const DecoderConfig config = SmallConfig();
  request.model.num_layers = config.layers;
  request.model.width = config.width;
  request.model.heads = config.heads;
  request.model.kv_heads = config.kv_heads;
  if (batch != 1) request.model.sp_modes.push_back(SpMode::kUlysses);
  // Three ranks have no product of two degrees.
  if (batch != 2 || world == 3) {
    request.model.sp_modes.push_back(SpMode::kKvGather);
  }
  if (batch == 2) request.model.sp_modes.push_back(SpMode::kBoth);
  request.time.micro_batch_fixed_ns = 1000;
  request.time.linear_ns_per_token = 100;
  request.time.quadratic_ns_per_token2 = 10;
  request.time.collective_latency_ns = 50;
  request.memory.tokens_per_rank = batch == 2 ? 12 : 36;
  request.options.policy = policy;
  request.options.blocks = blocks;
  request.options.recompute_layers = batch;
  return request;
}

using Case = std::tuple<Policy, int, BlockShape>;

// A step for every batch.
absl::StatusOr<std::vector<std::vector<TestMicroBatch>>> PlannedSteps(
    const Case& of) {
  const auto [policy, world, blocks] = of;
  std::vector<std::vector<TestMicroBatch>> steps;
  for (int batch = 0; batch < kBatches; ++batch) {
    EVENSTEP_ASSIGN_OR_RETURN(
        steps.emplace_back(),
        PlannedStep(Request(policy, world, blocks, batch)));
  }
  return steps;
}

class ParityPoliciesTest : public ::testing::TestWithParam<Case> {};

TEST_P(ParityPoliciesTest, EveryPolicysPlansGiveTheSameGradient) {
  const auto [policy, world, blocks] = GetParam();
  auto steps = PlannedSteps(GetParam());
  ASSERT_TRUE(steps.ok()) << steps.status();
  ParityOptions options;
  options.config = SmallConfig();
  if (world == 3) options.config.attention = AttentionMask::kFull;
  // One of the two shapes of blocks, each as often as the other.
  const bool is_contiguous = blocks == BlockShape::kContiguous;
  if (is_contiguous == (static_cast<int>(policy) % 2 == 0)) {
    options.sharding = Sharding::kZero1;
  }
  options.world = world;
  options.steps = *std::move(steps);
  ExpectParity(options);
}

std::vector<RankBlock> BlocksOf(const std::vector<TestMicroBatch>& step) {
  std::vector<RankBlock> blocks;
  for (const TestMicroBatch& test : step) {
    blocks.push_back({test.first_rank, test.degree});
  }
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

std::string ModeOf(const TestMicroBatch& test) {
  if (test.ulysses_degree == 1) return "gather";
  const bool is_whole =
      test.ulysses_degree == 0 || test.ulysses_degree == test.degree;
  return is_whole ? "ulysses" : "both";
}

const std::vector<Policy> kPolicies = {Policy::kStatic,   Policy::kBalanced,
                                       Policy::kPacked,   Policy::kEven,
                                       Policy::kBucket,   Policy::kBucketTuned,
                                       Policy::kDcpInter, Policy::kDcpIntra};
const std::vector<int> kAlignedWorlds = {2, 3, 4, 8};
// Of two ranks there is one block only; on six, policies find other degrees
// than aligned blocks have.
const std::vector<int> kContiguousWorlds = {3, 4, 6, 8};

std::string NameOf(const ::testing::TestParamInfo<Case>& info) {
  const auto [policy, world, blocks] = info.param;
  return absl::StrCat(
      absl::StrReplaceAll(planner::PolicyName(policy), {{"-", "_"}}), "_",
      world, blocks == BlockShape::kAligned ? "_aligned" : "_contiguous");
}

INSTANTIATE_TEST_SUITE_P(
    Aligned, ParityPoliciesTest,
    ::testing::Combine(::testing::ValuesIn(kPolicies),
                       ::testing::ValuesIn(kAlignedWorlds),
                       ::testing::Values(BlockShape::kAligned)),
    NameOf);
INSTANTIATE_TEST_SUITE_P(
    Contiguous, ParityPoliciesTest,
    ::testing::Combine(::testing::ValuesIn(kPolicies),
                       ::testing::ValuesIn(kContiguousWorlds),
                       ::testing::Values(BlockShape::kContiguous)),
    NameOf);

// What the planned steps consist of.
struct Seen {
  std::set<std::string> modes;
  std::set<int> recomputed;
  int num_shared = 0;  // micro-batches of several ranks
};

void Note(const std::vector<TestMicroBatch>& step, Seen* seen) {
  for (const TestMicroBatch& test : step) {
    seen->recomputed.insert(test.recompute_layers);
    if (test.degree == 1) continue;
    ++seen->num_shared;
    seen->modes.insert(ModeOf(test));
  }
}

// How many of the policy's steps have other contiguous blocks than aligned
// ones; all are noted.
int CountDifferent(Policy policy, Seen* seen) {
  int num_different = 0;
  for (const int world : kContiguousWorlds) {
    const auto aligned = PlannedSteps({policy, world, BlockShape::kAligned});
    const auto contiguous =
        PlannedSteps({policy, world, BlockShape::kContiguous});
    EXPECT_TRUE(aligned.ok() && contiguous.ok());
    if (!aligned.ok() || !contiguous.ok()) continue;
    for (int batch = 0; batch < kBatches; ++batch) {
      Note((*aligned)[batch], seen);
      Note((*contiguous)[batch], seen);
      num_different +=
          BlocksOf((*aligned)[batch]) != BlocksOf((*contiguous)[batch]) ? 1 : 0;
    }
  }
  return num_different;
}

// Planned and not run.
TEST(ParityPoliciesCoverTest, PlansShareInEveryModeAndBlocksDiffer) {
  Seen all;
  for (const Policy policy : kPolicies) {
    SCOPED_TRACE(planner::PolicyName(policy));
    Seen seen;
    const int num_different = CountDifferent(policy, &seen);
    // These keep to powers of two where that is faster, as it is here.
    if (policy != Policy::kDcpInter && policy != Policy::kDcpIntra) {
      EXPECT_GT(num_different, 0);
    }
    EXPECT_GT(seen.num_shared, 0);
    all.modes.merge(seen.modes);
    all.recomputed.merge(seen.recomputed);
  }
  EXPECT_THAT(all.modes, ElementsAre("both", "gather", "ulysses"));
  EXPECT_THAT(all.recomputed, ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace evenstep::trainer
