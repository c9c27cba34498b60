#ifndef EVENSTEP_PLANNER_COSTS_NONNEGATIVE_FIT_H_
#define EVENSTEP_PLANNER_COSTS_NONNEGATIVE_FIT_H_

// Least squares with no coefficient below zero, for a handful of coefficients.
// Observations are folded into the normal equations one by one, so the same
// type serves a fit over a list of points and a recursive fit that forgets:
//
//   NormalEquations equations(2);
//   equations.Scale(0.95);             // what was seen before counts less
//   equations.Add({1, tokens}, time);  // one more observation
//   std::vector<double> costs = SolveNonnegative(equations);
//
// Pure arithmetic in a fixed order: the same observations give the same bits.
// Plain values, not thread-safe.

#include <vector>

#include "absl/types/span.h"

namespace evenstep::planner {

// The sums of x xT and x y over weighted observations y = x . coefficients.
class NormalEquations {
 public:
  explicit NormalEquations(int num_coefficients)
      : size_(num_coefficients),
        left_(num_coefficients * num_coefficients),
        right_(num_coefficients) {}

  // `x` has one value per coefficient.
  void Add(absl::Span<const double> x, double y, double weight = 1);
  // With the error counted relative to `y`. One that is not positive is left
  // out.
  void AddRelative(std::vector<double> x, double y);
  // Multiplies the weight of everything that was added.
  void Scale(double factor);
  // Takes a coefficient as known: it is 0 in every solution from now on, and
  // the others explain what it leaves over.
  void Hold(int row, double value);

  int size() const { return size_; }
  double left(int row, int col) const { return left_[row * size_ + col]; }
  double right(int row) const { return right_[row]; }

 private:
  double& at(int row, int col) { return left_[row * size_ + col]; }

  int size_;
  std::vector<double> left_;
  std::vector<double> right_;
};

// The coefficients of the least squared error among those that are not
// negative (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter
// 23). A coefficient of which the observations say nothing is 0.
std::vector<double> SolveNonnegative(const NormalEquations& equations);

// The same with no coefficient above its `highest` either: the one furthest
// beyond is held there and the others are solved again.
std::vector<double> SolveBounded(NormalEquations equations,
                                 absl::Span<const double> highest);

// How much of what is known of a coefficient the others cannot explain as well:
// the share of its column, squared, that is independent of their columns. 0:
// the observations do not tell it from the others, or say nothing of it.
double IndependentShare(const NormalEquations& equations, int row);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_COSTS_NONNEGATIVE_FIT_H_
