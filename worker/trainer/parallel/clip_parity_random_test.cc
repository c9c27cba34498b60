// Law 2 for video over plans that nobody thought of: blocks of any degree at
// any rank, switching or exchanging heads, recompute of either kind from none
// to all layers, ranks without work, clips of one frame or one patch, frames
// that are given, optimizer states whole or split. Each seed is a run of five
// steps, each with a plan of its own.

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

using data::ClipShape;
using planner::SpMode;
using testing::Dice;
using ::testing::IsSupersetOf;
using testing::MustRun;
using testing::ParityOptions;
using testing::ParityReport;
using testing::SmallVideoConfig;
using testing::TestMicroBatch;

constexpr uint64_t kSeeds = 32;
constexpr int kSteps = 5;
constexpr int kMostRanks = 8;

class Draw : public Dice {
 public:
  using Dice::Dice;

  // A clip that `degree` ranks can switch, if it is not 0.
  ClipShape Shape(int degree) {
    ClipShape shape{1 + Below(4), 1 + Below(3), 1 + Below(3)};
    if (degree == 0) return shape;
    shape.frames = degree + Below(3);
    while (shape.patches() < degree) {
      ++(Below(2) == 0 ? shape.height : shape.width);
    }
    return shape;
  }

  TestMicroBatch MicroBatch(const DiffusionTransformerConfig& config,
                            int world) {
    TestMicroBatch drawn;
    drawn.degree = Degree(world);
    drawn.first_rank = Below(world - drawn.degree + 1);
    const bool heads = config.heads % drawn.degree == 0 && Below(2) == 0;
    drawn.sp_mode = heads ? SpMode::kUlysses : SpMode::kSwitch;
    drawn.ulysses_degree = heads ? drawn.degree : 1;
    drawn.recompute_layers = Below(config.layers / 2 + 1);
    drawn.recompute_temporal_layers = Below(config.layers / 2 + 1);
    const int count = 1 + Below(3);
    for (int i = 0; i < count; ++i) {
      drawn.shapes.push_back(Shape(heads ? 0 : drawn.degree));
    }
    return drawn;
  }
};

// Every second of the larger worlds has as many heads as ranks, so that all of
// them can exchange heads.
DiffusionTransformerConfig DrawConfig(uint64_t seed, int world, Draw& draw) {
  DiffusionTransformerConfig config = SmallVideoConfig();
  config.heads = draw.OneOf({2, 4, 6});
  if (world > kMostRanks / 2 && seed % 16 >= 8) config.heads = world;
  config.width = 4 * config.heads;
  return config;
}

ParityOptions DrawRun(uint64_t seed) {
  Draw draw(seed);
  ParityOptions options;
  options.world = 1 + static_cast<int>(seed % kMostRanks);
  options.video = DrawConfig(seed, options.world, draw);
  if (draw.Below(2) == 0) options.sharding = Sharding::kZero1;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<TestMicroBatch>& plan = options.steps.emplace_back();
    const int count = 1 + draw.Below(3);
    for (int i = 0; i < count; ++i) {
      plan.push_back(draw.MicroBatch(*options.video, options.world));
    }
    // Now and then all frames of a micro-batch are given, and none has a loss;
    // never of all micro-batches.
    if (count > 1 && draw.Below(4) == 0) {
      plan.back().given_frames = plan.back().shapes.front().frames;
    }
  }
  return options;
}

class ClipParityRandomTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(ClipParityRandomTest, FiveDrawnPlansInARow) {
  const ParityOptions options = DrawRun(GetParam());
  const ParityReport report = MustRun(options);
  EXPECT_LE(report.loss, testing::kLossTolerance);
  EXPECT_LE(report.gradient, testing::kParityTolerance);
  EXPECT_LE(report.parameter, testing::kParityTolerance);
}

// 160 plans.
INSTANTIATE_TEST_SUITE_P(Seeds, ClipParityRandomTest,
                         ::testing::Range<uint64_t>(0, kSeeds));

// What there is about one micro-batch.
std::set<std::string> SeenInMicroBatch(const TestMicroBatch& test) {
  std::set<std::string> seen;
  const bool switches = test.sp_mode == SpMode::kSwitch;
  seen.insert(test.degree == 1
                  ? std::string("alone")
                  : absl::StrCat(switches ? "switch " : "heads ", test.degree));
  seen.insert(absl::StrCat("recompute ", test.recompute_layers, " and ",
                           test.recompute_temporal_layers));
  if (test.shapes.size() > 1) seen.insert("packed");
  for (const ClipShape& shape : test.shapes) {
    if (shape.frames == 1) seen.insert("one frame");
    if (shape.patches() == 1) seen.insert("one patch");
    if (shape.tokens() < test.degree) seen.insert("fewer tokens than ranks");
    if (test.degree > 1 && shape.frames % test.degree != 0 &&
        shape.patches() % test.degree != 0) {
      seen.insert("indivisible");
    }
    if (test.given_frames.has_value() && *test.given_frames >= shape.frames) {
      seen.insert("all given");
    }
  }
  return seen;
}

bool HasBothModes(const std::vector<TestMicroBatch>& plan) {
  std::set<SpMode> modes;
  for (const TestMicroBatch& test : plan) {
    if (test.degree > 1) modes.insert(test.sp_mode);
  }
  return modes.size() > 1;
}

// What happens somewhere in the run.
std::set<std::string> SeenIn(const ParityOptions& options) {
  std::set<std::string> seen;
  seen.insert(options.sharding == Sharding::kZero1 ? "split" : "whole");
  for (const auto& plan : options.steps) {
    seen.merge(testing::SeenInPlan(plan, options.world));
    if (HasBothModes(plan)) seen.insert("both modes");
    for (const TestMicroBatch& test : plan) seen.merge(SeenInMicroBatch(test));
  }
  return seen;
}

// Drawn and not run: every degree in either mode, and each number of layers of
// one kind that run again beside each of the other.
TEST(ClipParityRandomCoverTest, TheDrawnPlansHaveEverything) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    seen.merge(SeenIn(DrawRun(seed)));
  }
  std::vector<std::string> wanted = {"alone",
                                     "idle",
                                     "uneven",
                                     "mixed",
                                     "both modes",
                                     "split",
                                     "whole",
                                     "packed",
                                     "one frame",
                                     "one patch",
                                     "fewer tokens than ranks",
                                     "indivisible",
                                     "all given"};
  for (int degree = 2; degree <= kMostRanks; ++degree) {
    wanted.push_back(absl::StrCat("switch ", degree));
    wanted.push_back(absl::StrCat("heads ", degree));
  }
  const int layers_of_a_kind = SmallVideoConfig().layers / 2;
  for (int spatial = 0; spatial <= layers_of_a_kind; ++spatial) {
    for (int temporal = 0; temporal <= layers_of_a_kind; ++temporal) {
      wanted.push_back(absl::StrCat("recompute ", spatial, " and ", temporal));
    }
  }
  EXPECT_THAT(seen, IsSupersetOf(wanted));
}

}  // namespace
}  // namespace evenstep::trainer
