// Law 2 over plans that nobody thought of: blocks of any degree at any rank,
// every mode of sequence parallelism, recompute from none to all layers, ranks
// without work, samples of 1 and 2 tokens, optimizer states whole or split.
// Each seed is a run of ten steps, each with a plan of its own; loss and every
// gradient are compared at each step, parameters after the last.

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "worker/trainer/testing/expect_parity.h"

namespace evenstep::trainer {
namespace {

using testing::ExpectParity;
using testing::ParityOptions;
using testing::SmallConfig;
using testing::TestMicroBatch;

constexpr int kSteps = 10;

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  int Below(int n) {
    return static_cast<int>(random_() % static_cast<uint64_t>(n));
  }
  int OneOf(const std::vector<int>& values) {
    return values[Below(static_cast<int>(values.size()))];
  }
  // Mostly short; often 1 or 2.
  int64_t Length() { return Below(3) == 0 ? 1 + Below(2) : 1 + Below(24); }

  TestMicroBatch MicroBatch(const DecoderConfig& config, int world) {
    TestMicroBatch drawn;
    drawn.degree = 1 + Below(world);
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

 private:
  std::mt19937_64 random_;
};

ParityOptions DrawRun(uint64_t seed) {
  Draw draw(seed);
  ParityOptions options;
  options.config = SmallConfig();
  options.config.heads = draw.OneOf({2, 4, 6});
  options.config.width = 4 * options.config.heads;
  options.config.kv_heads =
      options.config.heads / draw.OneOf(options.config.heads == 6
                                            ? std::vector<int>{1, 2, 3, 6}
                                            : std::vector<int>{1, 2});
  if (draw.Below(4) == 0) options.config.attention = AttentionMask::kFull;
  options.irregular_heads = IrregularHeads::kExpand;
  if (draw.Below(2) == 0) options.sharding = Sharding::kZero1;
  options.world = 1 + static_cast<int>(seed % 8);
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
  ExpectParity(DrawRun(GetParam()));
}

// 320 plans.
INSTANTIATE_TEST_SUITE_P(Seeds, ParityRandomTest,
                         ::testing::Range<uint64_t>(0, 32));

}  // namespace
}  // namespace evenstep::trainer
