#include "worker/trainer/profile/fit_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "planner/costs/degrees.h"

namespace evenstep::trainer {
namespace {

constexpr int kTerms = 3;  // 1, s, s^2
using Vector = std::array<double, kTerms>;
using Matrix = std::array<Vector, kTerms>;

// Terms of a point, divided by its time: the fit is of relative errors. Tokens
// are scaled so that the three columns are of one size.
Vector Row(const ComputePoint& point, double scale) {
  const double s = static_cast<double>(point.tokens) / scale;
  return {1 / point.ns, s / point.ns, s * s / point.ns};
}

// Gauss with pivoting; nothing where the system is singular.
std::optional<Vector> Solve(Matrix a, Vector b) {
  for (int col = 0; col < kTerms; ++col) {
    int pivot = col;
    for (int row = col + 1; row < kTerms; ++row) {
      if (std::abs(a[row][col]) > std::abs(a[pivot][col])) pivot = row;
    }
    std::swap(a[col], a[pivot]);
    std::swap(b[col], b[pivot]);
    if (std::abs(a[col][col]) < 1e-300) return std::nullopt;
    for (int row = col + 1; row < kTerms; ++row) {
      const double factor = a[row][col] / a[col][col];
      for (int k = col; k < kTerms; ++k) a[row][k] -= factor * a[col][k];
      b[row] -= factor * b[col];
    }
  }
  Vector x = {};
  for (int row = kTerms - 1; row >= 0; --row) {
    double rest = b[row];
    for (int k = row + 1; k < kTerms; ++k) rest -= a[row][k] * x[k];
    x[row] = rest / a[row][row];
  }
  return x;
}

// Least squares over the terms in `used`; the others are zero.
std::optional<Vector> SolveSubset(absl::Span<const ComputePoint> points,
                                  double scale, unsigned used) {
  Matrix normal = {};
  Vector right = {};
  for (const ComputePoint& point : points) {
    const Vector row = Row(point, scale);
    for (int i = 0; i < kTerms; ++i) {
      if (!(used & (1u << i))) continue;
      right[i] += row[i];
      for (int j = 0; j < kTerms; ++j) {
        if (used & (1u << j)) normal[i][j] += row[i] * row[j];
      }
    }
  }
  // A unit equation holds an unused term at zero.
  for (int i = 0; i < kTerms; ++i) {
    if (!(used & (1u << i))) normal[i][i] = 1;
  }
  return Solve(normal, right);
}

double SquaredRelativeError(absl::Span<const ComputePoint> points, double scale,
                            const Vector& x) {
  double sum = 0;
  for (const ComputePoint& point : points) {
    const Vector row = Row(point, scale);
    double error = -1;
    for (int i = 0; i < kTerms; ++i) error += row[i] * x[i];
    sum += error * error;
  }
  return sum;
}

// Of key and value heads, copies included: their share of the query heads.
double KvShareOfGroup(const planner::ModelShape& model, int degree) {
  const int ulysses = planner::SplitFor(model, degree).ulysses_degree;
  const int heads = model.kv_heads + planner::CopiedKvHeads(model, ulysses);
  return static_cast<double>(heads) / model.heads;
}

bool AllPhysical(const Vector& x) {
  return std::all_of(x.begin(), x.end(), [](double value) {
    return std::isfinite(value) && value >= 0;
  });
}

}  // namespace

ComputeCosts FitCompute(absl::Span<const ComputePoint> points) {
  double scale = 1;
  for (const ComputePoint& point : points) {
    scale = std::max(scale, static_cast<double>(point.tokens));
  }
  Vector best = {};
  double best_error = std::numeric_limits<double>::infinity();
  for (unsigned used = 1; used < (1u << kTerms) && !points.empty(); ++used) {
    const std::optional<Vector> x = SolveSubset(points, scale, used);
    if (!x.has_value() || !AllPhysical(*x)) continue;
    const double error = SquaredRelativeError(points, scale, *x);
    if (error < best_error) {
      best = *x;
      best_error = error;
    }
  }
  return {best[0], best[1] / scale, best[2] / (scale * scale)};
}

AllToAllCosts FitAllToAll(const AllToAllPoint& small,
                          const AllToAllPoint& large) {
  if (large.bytes <= small.bytes) return {std::max(0.0, small.ns), 0};
  const double slope =
      std::max(0.0, (large.ns - small.ns) /
                        static_cast<double>(large.bytes - small.bytes));
  const double at_zero = small.ns - slope * static_cast<double>(small.bytes);
  return {std::max(0.0, at_zero), slope};
}

double AllToAllBytesPerToken(const planner::ModelShape& model, int degree,
                             int bytes_per_element) {
  if (model.is_video()) {
    const bool switches =
        planner::SplitFor(model, degree).mode == planner::SpMode::kSwitch;
    // One exchange of tokens, or those of queries, keys, values and output.
    const double exchanged = 2 * (switches ? 1 : 4);
    return exchanged * model.layers().total() * model.width * bytes_per_element;
  }
  // Forward and backward.
  const double widths = 2 * (2 + 2 * KvShareOfGroup(model, degree));
  return widths * model.num_layers * model.width * bytes_per_element;
}

double GatherBytesPerToken(const planner::ModelShape& model, int degree,
                           int bytes_per_element) {
  const double kv_width = model.width * KvShareOfGroup(model, degree);
  return 3 * 2 * kv_width * model.num_layers * bytes_per_element;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const size_t middle = (values.size() - 1) / 2;
  std::nth_element(values.begin(), values.begin() + middle, values.end());
  return values[middle];
}

}  // namespace evenstep::trainer
