#include "planner/costs/nonnegative_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace evenstep::planner {
namespace {

// A pivot or slope this small, relative to its column, is rounding.
constexpr double kTolerance = 1e-12;

// Solves for the coefficients in `chosen`; the others are 0. A column that
// depends on those before it is left at 0.
std::vector<double> SolveChosen(const NormalEquations& equations,
                                const std::vector<int>& chosen) {
  const int n = static_cast<int>(chosen.size());
  std::vector<std::vector<double>> rows(n, std::vector<double>(n + 1));
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      rows[i][j] = equations.left(chosen[i], chosen[j]);
    }
    rows[i][n] = equations.right(chosen[i]);
  }
  // The matrix is positive semidefinite: diagonal pivots are stable.
  std::vector<bool> dependent(n, false);
  for (int k = 0; k < n; ++k) {
    const double whole = equations.left(chosen[k], chosen[k]);
    dependent[k] = rows[k][k] <= kTolerance * whole;
    if (dependent[k]) continue;
    for (int i = k + 1; i < n; ++i) {
      const double factor = rows[i][k] / rows[k][k];
      for (int j = k; j <= n; ++j) rows[i][j] -= factor * rows[k][j];
    }
  }
  std::vector<double> solution(equations.size(), 0.0);
  for (int k = n - 1; k >= 0; --k) {
    if (dependent[k]) continue;
    double rest = rows[k][n];
    for (int j = k + 1; j < n; ++j) rest -= rows[k][j] * solution[chosen[j]];
    solution[chosen[k]] = rest / rows[k][k];
  }
  return solution;
}

// Half the gradient of the squared error, downhill.
double Slope(const NormalEquations& equations, const std::vector<double>& at,
             int row) {
  double slope = equations.right(row);
  for (int col = 0; col < equations.size(); ++col) {
    slope -= equations.left(row, col) * at[col];
  }
  return slope;
}

// The coefficient at 0 whose growth lessens the error most; -1: none does.
int BestEntry(const NormalEquations& equations, const std::vector<double>& at,
              const std::vector<int>& chosen) {
  int best = -1;
  double best_gain = 0;
  for (int row = 0; row < equations.size(); ++row) {
    if (std::find(chosen.begin(), chosen.end(), row) != chosen.end()) continue;
    const double whole = equations.left(row, row);
    if (whole <= 0) continue;
    const double slope = Slope(equations, at, row);
    if (slope <= kTolerance * std::abs(equations.right(row))) continue;
    const double gain = slope * slope / whole;
    if (gain <= best_gain) continue;
    best_gain = gain;
    best = row;
  }
  return best;
}

// The part of the way to a negative target at which a coefficient meets 0.
double ShareToZero(double at, double target) {
  return target < 0 ? at / (at - target) : 1;
}

// Moves from `at` towards `target` until the first chosen coefficient meets 0,
// and lets go of those that did. True when the target was reached.
bool MoveTowards(const std::vector<double>& target, std::vector<double>* at,
                 std::vector<int>* chosen) {
  double share = 1;
  for (int row : *chosen) {
    share = std::min(share, ShareToZero((*at)[row], target[row]));
  }
  std::vector<int> kept;
  for (int row : *chosen) {
    double& value = (*at)[row];
    if (share < 1 && ShareToZero(value, target[row]) <= share) {
      value = 0;
      continue;
    }
    value += share * (target[row] - value);
    kept.push_back(row);
  }
  *chosen = std::move(kept);
  return share >= 1;
}

}  // namespace

void NormalEquations::Add(absl::Span<const double> x, double y, double weight) {
  for (int row = 0; row < size_; ++row) {
    right_[row] += weight * x[row] * y;
    for (int col = 0; col < size_; ++col) {
      left_[row * size_ + col] += weight * x[row] * x[col];
    }
  }
}

void NormalEquations::AddRelative(std::vector<double> x, double y) {
  if (!(y > 0)) return;
  for (double& value : x) value /= y;
  Add(x, 1);
}

void NormalEquations::Scale(double factor) {
  for (double& value : left_) value *= factor;
  for (double& value : right_) value *= factor;
}

void NormalEquations::Hold(int row, double value) {
  for (int other = 0; other < size_; ++other) {
    right_[other] -= at(other, row) * value;
    at(other, row) = at(row, other) = 0;
  }
  right_[row] = 0;
}

std::vector<double> SolveNonnegative(const NormalEquations& equations) {
  std::vector<double> at(equations.size(), 0.0);
  std::vector<int> chosen;
  // Each turn lowers the error, so none repeats; the bound is against rounding.
  const int most_turns = 8 * equations.size();
  for (int turn = 0; turn < most_turns; ++turn) {
    const int entry = BestEntry(equations, at, chosen);
    if (entry < 0) break;
    chosen.push_back(entry);
    while (!chosen.empty() &&
           !MoveTowards(SolveChosen(equations, chosen), &at, &chosen)) {
    }
  }
  return at;
}

std::vector<double> SolveBounded(NormalEquations equations,
                                 absl::Span<const double> highest) {
  std::vector<int> held;
  std::vector<double> solution = SolveNonnegative(equations);
  for (int turn = 0; turn < equations.size(); ++turn) {
    int worst = -1;
    double most = 1;
    for (int row = 0; row < equations.size(); ++row) {
      // What is not a number stays, for the caller to see.
      if (!(solution[row] > highest[row] * most)) continue;
      worst = row;
      most = solution[row] / highest[row];
    }
    if (worst < 0) break;
    held.push_back(worst);
    equations.Hold(worst, highest[worst]);
    solution = SolveNonnegative(equations);
  }
  for (int row : held) solution[row] = highest[row];
  return solution;
}

double IndependentShare(const NormalEquations& equations, int row) {
  const int size = equations.size();
  const double whole = equations.left(row, row);
  if (!(whole > 0)) return 0;
  // Eliminates the other columns one after another, the coefficient's last.
  std::vector<int> order;
  for (int i = 0; i < size; ++i) {
    if (i != row) order.push_back(i);
  }
  order.push_back(row);
  std::vector<std::vector<double>> rest(size, std::vector<double>(size));
  for (int i = 0; i < size; ++i) {
    for (int j = 0; j < size; ++j) {
      rest[i][j] = equations.left(order[i], order[j]);
    }
  }
  for (int k = 0; k + 1 < size; ++k) {
    if (rest[k][k] <= kTolerance * equations.left(order[k], order[k])) continue;
    for (int i = k + 1; i < size; ++i) {
      const double factor = rest[i][k] / rest[k][k];
      for (int j = k; j < size; ++j) rest[i][j] -= factor * rest[k][j];
    }
  }
  return std::clamp(rest[size - 1][size - 1] / whole, 0.0, 1.0);
}

}  // namespace evenstep::planner
