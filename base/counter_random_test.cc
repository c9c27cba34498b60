#include "base/counter_random.h"

#include <set>

#include "gtest/gtest.h"

namespace evenstep {
namespace {

TEST(CounterRandomTest, ADrawDependsOnSeedStreamAndEveryCounter) {
  const CounterRandom random(7);
  const std::set<uint64_t> draws = {
      random.Bits(1),           random.Bits(2),
      random.Bits(0, 1),        random.Bits(0, 0, 1),
      random.Bits(1, 1, 1),     random.Stream(1).Bits(1),
      random.Stream(2).Bits(1), CounterRandom(8).Bits(1)};
  EXPECT_EQ(draws.size(), 8u);
  EXPECT_EQ(random.Bits(3, 4, 5), CounterRandom(7).Bits(3, 4, 5));
}

TEST(CounterRandomTest, NeighbouringCountersLookIndependent) {
  const CounterRandom random(1);
  double sum = 0;
  double squares = 0;
  double products = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.Normal(i);
    sum += x;
    squares += x * x;
    products += x * random.Normal(i + 1);
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.03);
  EXPECT_NEAR(squares / kDraws, 1, 0.04);
  EXPECT_NEAR(products / kDraws, 0, 0.03);
}

TEST(CounterRandomTest, UniformFillsTheUnitInterval) {
  const CounterRandom random(2);
  int below[4] = {};
  for (int i = 0; i < 4000; ++i) {
    const double u = random.Uniform(0, i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ++below[static_cast<int>(u * 4)];
  }
  for (int count : below) EXPECT_NEAR(count, 1000, 120);
}

}  // namespace
}  // namespace evenstep
