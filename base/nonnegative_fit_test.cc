#include "base/nonnegative_fit.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/counter_random.h"
#include "gtest/gtest.h"

namespace evenstep {
namespace {

TEST(NonnegativeFitTest, ExactObservationsGiveTheirCoefficientsBack) {
  NormalEquations equations(3);
  for (double s : {1.0, 2.0, 5.0, 9.0}) {
    equations.Add({1, s, s * s}, 7 + 3 * s + 0.5 * s * s);
  }
  const std::vector<double> fit = SolveNonnegative(equations);
  EXPECT_NEAR(fit[0], 7, 1e-8);
  EXPECT_NEAR(fit[1], 3, 1e-8);
  EXPECT_NEAR(fit[2], 0.5, 1e-8);
}

TEST(NonnegativeFitTest, AParabolaThatBendsDownLosesItsSquare) {
  NormalEquations equations(3);
  for (double s : {1.0, 2.0, 4.0}) {
    equations.Add({1, s, s * s}, 10 * s - s * s);
  }
  const std::vector<double> fit = SolveNonnegative(equations);
  EXPECT_GE(fit[0], 0);
  EXPECT_GT(fit[1], 0);
  EXPECT_EQ(fit[2], 0);
}

TEST(NonnegativeFitTest, NothingObservedGivesZeros) {
  EXPECT_EQ(SolveNonnegative(NormalEquations(2)), std::vector<double>(2, 0.0));
}

TEST(NonnegativeFitTest, AColumnThatRepeatsAnotherDoesNoHarm) {
  NormalEquations equations(2);
  for (double s : {1.0, 2.0, 3.0}) equations.Add({s, 2 * s}, 5 * s);
  const std::vector<double> fit = SolveNonnegative(equations);
  EXPECT_NEAR(fit[0] + 2 * fit[1], 5, 1e-9);
}

TEST(NonnegativeFitTest, ForgettingLetsNewObservationsWin) {
  NormalEquations equations(1);
  for (int i = 0; i < 50; ++i) {
    equations.Scale(0.8);
    equations.Add({1}, i < 25 ? 10 : 20);
  }
  EXPECT_NEAR(SolveNonnegative(equations)[0], 20, 0.1);
}

double Error(const NormalEquations& equations, const std::vector<double>& at) {
  double error = 0;  // but for the constant sum of y^2
  for (int i = 0; i < equations.size(); ++i) {
    error -= 2 * at[i] * equations.right(i);
    for (int j = 0; j < equations.size(); ++j) {
      error += at[i] * at[j] * equations.left(i, j);
    }
  }
  return error;
}

// Coordinate descent: slow, obvious, and right.
std::vector<double> Oracle(const NormalEquations& equations) {
  std::vector<double> at(equations.size(), 0.0);
  for (int turn = 0; turn < 20000; ++turn) {
    for (int i = 0; i < equations.size(); ++i) {
      double rest = equations.right(i);
      for (int j = 0; j < equations.size(); ++j) {
        if (j != i) rest -= equations.left(i, j) * at[j];
      }
      at[i] = std::max(0.0, rest / equations.left(i, i));
    }
  }
  return at;
}

TEST(NonnegativeFitTest, NoOtherCoefficientsHaveALowerError) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const CounterRandom random(seed);
    NormalEquations equations(4);
    for (int i = 0; i < 12; ++i) {
      std::vector<double> x;
      for (int k = 0; k < 4; ++k) x.push_back(random.Uniform(i, k));
      equations.Add(x, 2 * random.Uniform(i, 4) - 1 + x[0]);
    }
    const std::vector<double> fit = SolveNonnegative(equations);
    for (double value : fit) EXPECT_GE(value, 0) << "seed " << seed;
    EXPECT_LE(Error(equations, fit), Error(equations, Oracle(equations)) + 1e-6)
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace evenstep
