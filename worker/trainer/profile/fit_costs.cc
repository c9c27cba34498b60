#include "worker/trainer/profile/fit_costs.h"

#include <algorithm>
#include <utility>

#include "planner/costs/degrees.h"
#include "planner/costs/nonnegative_fit.h"

namespace evenstep::trainer {
namespace {

// Of key and value heads, copies included: their share of the query heads.
double KvShareOfGroup(const planner::ModelShape& model, int degree) {
  const int ulysses = planner::SplitFor(model, degree).ulysses_degree;
  const int heads = model.kv_heads + planner::CopiedKvHeads(model, ulysses);
  return static_cast<double>(heads) / model.heads;
}

}  // namespace

planner::TimeModel FitCompute(const planner::ModelShape& model,
                              absl::Span<const ComputePoint> points) {
  const planner::CostTerms terms(model, {});
  planner::TimeModel costs;
  planner::NormalEquations equations(
      static_cast<int>(terms.ComputeCosts(costs).size()));
  for (const ComputePoint& point : points) {
    std::vector<double> row = terms.ComputeTerms(point.work);
    row.back() = 0;  // single samples do not tell it from the layers
    equations.AddRelative(std::move(row), point.ns);
  }
  terms.SetComputeCosts(SolveNonnegative(equations), &costs);
  return costs;
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
