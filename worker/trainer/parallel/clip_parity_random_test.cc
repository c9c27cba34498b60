// Law 2 for video over plans that nobody thought of: blocks of any degree at
// any rank, switching or exchanging heads, recompute of either kind from none
// to all layers, ranks without work, clips of one frame or one patch, optimizer
// states whole or split. Each seed is a run of five steps, each with a plan of
// its own.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "worker/trainer/testing/expect_parity.h"

namespace evenstep::trainer {
namespace {

using data::ClipShape;
using planner::SpMode;
using testing::ExpectParity;
using testing::ParityOptions;
using testing::SmallVideoConfig;
using testing::TestMicroBatch;

constexpr int kSteps = 5;
constexpr int kWorlds[] = {2, 4, 8};

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  int Below(int n) {
    return static_cast<int>(random_() % static_cast<uint64_t>(n));
  }

  // A clip that `degree` ranks can switch, if it is not 0.
  ClipShape Shape(int degree) {
    ClipShape shape{1 + Below(4), 1 + Below(3), 1 + Below(3)};
    if (degree == 0) return shape;
    shape.frames = std::max<int64_t>(shape.frames, degree + Below(3));
    while (shape.patches() < degree) {
      ++(Below(2) == 0 ? shape.height : shape.width);
    }
    return shape;
  }

  TestMicroBatch MicroBatch(const DiffusionTransformerConfig& config,
                            int world) {
    TestMicroBatch drawn;
    drawn.degree = 1 + Below(world);
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

 private:
  std::mt19937_64 random_;
};

class ClipParityRandomTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(ClipParityRandomTest, FiveDrawnPlansInARow) {
  const uint64_t seed = GetParam();
  Draw draw(seed);
  ParityOptions options;
  options.video = SmallVideoConfig();
  options.video->width = 8 * (1 + draw.Below(2));
  options.video->heads = 2;
  if (draw.Below(2) == 0) options.sharding = Sharding::kZero1;
  options.world = kWorlds[seed % std::size(kWorlds)];
  for (int step = 0; step < kSteps; ++step) {
    auto& plan = options.steps.emplace_back();
    const int count = 1 + draw.Below(3);
    for (int i = 0; i < count; ++i) {
      plan.push_back(draw.MicroBatch(*options.video, options.world));
    }
  }
  ExpectParity(options);
}

// 120 plans.
INSTANTIATE_TEST_SUITE_P(Seeds, ClipParityRandomTest,
                         ::testing::Range<uint64_t>(0, 24));

}  // namespace
}  // namespace evenstep::trainer
