// Law 2 over plans that nobody thought of: blocks of any degree at any rank,
// every mode of sequence parallelism, recompute from none to all layers, ranks
// without work, samples of 1 and 2 tokens, optimizer states whole or split.
// Each seed is a run of ten steps, each with a plan of its own; loss and every
// gradient are compared at each step, parameters after the last.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/trainer/testing/drawn_plans.h"
#include "worker/trainer/testing/expect_parity.h"

namespace evenstep::trainer {
namespace {

using testing::Dice;
using ::testing::IsSupersetOf;
using testing::MustRun;
using testing::ParityOptions;
using testing::ParityReport;
using testing::RandomSample;
using testing::SmallConfig;
using testing::TestMicroBatch;

constexpr uint64_t kSeeds = 32;
constexpr int kSteps = 10;
constexpr int kMostRanks = 8;

class Draw : public Dice {
 public:
  using Dice::Dice;

  // Mostly short; often 1 or 2.
  int64_t Length() { return Below(3) == 0 ? 1 + Below(2) : 1 + Below(24); }

  TestMicroBatch MicroBatch(const DecoderConfig& config, int world) {
    TestMicroBatch drawn;
    drawn.degree = Degree(world);
    drawn.first_rank = Below(world - drawn.degree + 1);
    std::vector<int> parts;
    for (int u = 1; u <= drawn.degree; ++u) {
      if (drawn.degree % u == 0 && config.heads % u == 0) parts.push_back(u);
    }
    drawn.ulysses_degree = OneOf(parts);
    drawn.recompute_layers = Below(config.layers + 1);
    drawn.lengths.resize(1 + Below(3));
    for (int64_t& length : drawn.lengths) length = Length();
    return drawn;
  }
};

// Some tokens within documents have no loss; the first one of each has.
data::SampleTokens PartlyMasked(int64_t id, int64_t length) {
  data::SampleTokens sample = RandomSample(id, length, SmallConfig().vocab);
  for (int64_t i = 1; i < length; ++i) {
    if ((id + 3 * i) % 5 == 0) sample.targets[i] = data::kIgnoredTarget;
  }
  return sample;
}

// Every second of the larger worlds has as many heads as ranks, so that all of
// them can exchange heads.
DecoderConfig DrawConfig(uint64_t seed, int world, Draw& draw) {
  DecoderConfig config = SmallConfig();
  config.heads = draw.OneOf({2, 4, 6, 8});
  if (world > kMostRanks / 2 && seed % 16 >= 8) config.heads = world;
  config.width = 4 * config.heads;
  std::vector<int> kv_heads;
  for (int heads = 1; heads <= config.heads; ++heads) {
    if (config.heads % heads == 0) kv_heads.push_back(heads);
  }
  config.kv_heads = draw.OneOf(kv_heads);
  if (draw.Below(4) == 0) config.attention = AttentionMask::kFull;
  return config;
}

ParityOptions DrawRun(uint64_t seed) {
  Draw draw(seed);
  ParityOptions options;
  options.world = 1 + static_cast<int>(seed % kMostRanks);
  options.config = DrawConfig(seed, options.world, draw);
  options.irregular_heads = IrregularHeads::kExpand;
  options.sample = PartlyMasked;
  if (draw.Below(2) == 0) options.sharding = Sharding::kZero1;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<TestMicroBatch>& plan = options.steps.emplace_back();
    const int count = 1 + draw.Below(3);
    for (int i = 0; i < count; ++i) {
      plan.push_back(draw.MicroBatch(options.config, options.world));
    }
    plan.front().lengths.push_back(2);  // at least one trained token
  }
  return options;
}

class ParityRandomTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(ParityRandomTest, TenDrawnPlansInARow) {
  const ParityOptions options = DrawRun(GetParam());
  const ParityReport report = MustRun(options);
  EXPECT_LE(report.loss, testing::kLossTolerance);
  EXPECT_LE(report.gradient, testing::kParityTolerance);
  EXPECT_LE(report.parameter, testing::kParityTolerance);
  if (options.world > kMostRanks / 2) {
    EXPECT_GT(report.opened, 0) << "groups beside the tree";
  }
}

// 320 plans.
INSTANTIATE_TEST_SUITE_P(Seeds, ParityRandomTest,
                         ::testing::Range<uint64_t>(0, kSeeds));

// "ulysses 4"; of one rank, "alone".
std::string ModeOf(const TestMicroBatch& test) {
  if (test.degree == 1) return "alone";
  if (test.ulysses_degree == test.degree) {
    return absl::StrCat("ulysses ", test.degree);
  }
  return absl::StrCat(test.ulysses_degree == 1 ? "gather " : "both ",
                      test.degree);
}

// What happens somewhere in the run.
std::set<std::string> SeenIn(const ParityOptions& options) {
  std::set<std::string> seen;
  seen.insert(options.sharding == Sharding::kZero1 ? "split" : "whole");
  seen.insert(options.config.attention == AttentionMask::kFull ? "full"
                                                               : "causal");
  for (const auto& plan : options.steps) {
    seen.merge(testing::SeenInPlan(plan, options.world));
    for (const TestMicroBatch& test : plan) {
      seen.insert(ModeOf(test));
      seen.insert(absl::StrCat("recompute ", test.recompute_layers));
      for (const int64_t length : test.lengths) {
        if (length <= 2) seen.insert(absl::StrCat("length ", length));
      }
    }
  }
  return seen;
}

// Drawn and not run: every degree in every mode that it has.
TEST(ParityRandomCoverTest, TheDrawnPlansHaveEverything) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    seen.merge(SeenIn(DrawRun(seed)));
  }
  std::vector<std::string> wanted = {
      "alone",    "both 4",      "both 6",      "both 8",
      "length 1", "length 2",    "recompute 0", "recompute 1",
      "idle",     "recompute 2", "split",       "whole",
      "full",     "causal",      "mixed",       "uneven"};
  for (int degree = 2; degree <= kMostRanks; ++degree) {
    wanted.push_back(absl::StrCat("gather ", degree));
    wanted.push_back(absl::StrCat("ulysses ", degree));
  }
  EXPECT_THAT(seen, IsSupersetOf(wanted));
}

}  // namespace
}  // namespace evenstep::trainer
