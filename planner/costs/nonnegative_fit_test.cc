#include "planner/costs/nonnegative_fit.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/counter_random.h"
#include "gtest/gtest.h"

namespace evenstep::planner {
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

TEST(NonnegativeFitTest, ACoefficientThatIsKnownLeavesTheRestToTheOthers) {
  NormalEquations equations(2);
  for (double s : {1.0, 2.0, 5.0}) equations.Add({1, s}, 7 + 3 * s);
  equations.Hold(0, 4);
  const std::vector<double> fit = SolveNonnegative(equations);
  EXPECT_EQ(fit[0], 0);
  // Least squares of 3 + 3 s by one coefficient: 3 + 3 sum s / sum s^2.
  EXPECT_NEAR(fit[1], 3 + 3 * 8.0 / 30, 1e-12);
}

TEST(NonnegativeFitTest, ABoundIsKeptAndTheOthersExplainWhatIsLeft) {
  NormalEquations equations(3);
  for (double s : {1.0, 2.0, 5.0, 9.0}) {
    equations.Add({1, s, s * s}, 7 + 3 * s + 0.5 * s * s);
  }
  const std::vector<double> bounded =
      SolveBounded(equations, std::vector<double>{100, 100, 0.25});
  EXPECT_EQ(bounded[2], 0.25);
  EXPECT_GT(bounded[1], 3);
  equations.Hold(2, 0.25);
  std::vector<double> rest = SolveNonnegative(equations);
  EXPECT_EQ(bounded[0], rest[0]);
  EXPECT_EQ(bounded[1], rest[1]);
}

TEST(NonnegativeFitTest, EveryBoundIsKeptAtOnce) {
  NormalEquations equations(3);
  for (double s : {1.0, 2.0, 5.0, 9.0}) {
    equations.Add({1, s, s * s}, 7e9 + 3e9 * s + 5e9 * s * s);
  }
  EXPECT_EQ(SolveBounded(equations, std::vector<double>{1, 2, 0}),
            (std::vector<double>{1, 2, 0}));
}

TEST(NonnegativeFitTest, OnlyWhatOthersDoNotExplainIsIndependent) {
  NormalEquations one_length(3);
  for (int i = 0; i < 20; ++i) one_length.Add({1, 8, 64}, 5);
  NormalEquations many(3);
  for (double s : {1.0, 2.0, 5.0, 9.0}) many.Add({1, s, s * s}, 5);
  for (int row : {0, 1, 2}) {
    EXPECT_LT(IndependentShare(one_length, row), 1e-9) << row;
    EXPECT_GT(IndependentShare(many, row), 0.01) << row;
  }
  EXPECT_EQ(IndependentShare(NormalEquations(2), 1), 0);
  NormalEquations alone(1);
  alone.Add({3}, 1);
  EXPECT_EQ(IndependentShare(alone, 0), 1);
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
}  // namespace evenstep::planner
