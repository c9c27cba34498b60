#include "worker/trainer/profile/fit_profile.h"

#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "planner/costs/cost_limits.h"
#include "planner/costs/cost_model.h"
#include "planner/costs/cost_terms.h"
#include "planner/costs/degrees.h"
#include "planner/costs/nonnegative_fit.h"

namespace evenstep::trainer {
namespace {

using jobspec::ProfilePoint;
using planner::CostTerms;
using planner::NormalEquations;

planner::ModelShape ShapeOf(const jobspec::ModelSpec& model, int layers) {
  jobspec::ModelSpec part = model;
  part.layers = layers;
  return jobspec::ToModelShape(part);
}

planner::BatchWork WorkOf(const planner::ModelShape& model,
                          const ProfilePoint& point) {
  std::vector<planner::Sample> samples(point.lengths.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].length = point.lengths[i];
    if (point.shapes.empty()) continue;
    samples[i].frames = point.shapes[i].frames;
    samples[i].height = point.shapes[i].height;
    samples[i].width = point.shapes[i].width;
  }
  return planner::WorkOf(
      model, planner::SplitFor(model, point.degree), samples,
      {point.recompute_layers, point.recompute_temporal_layers});
}

// Turns terms of costs of all layers into those of one layer; or costs of one
// layer into those of all.
void TimesLayers(double layers, std::vector<double>* compute) {
  for (size_t i = 0; i + 1 < compute->size(); ++i) {
    if (i != CostTerms::kFixed) (*compute)[i] *= layers;
  }
}

// As CostTerms has them, but for one layer; last, a layer's part of the fixed
// cost.
std::vector<double> ComputeTerms(const jobspec::ModelSpec& model,
                                 const ProfilePoint& point) {
  const planner::ModelShape shape = ShapeOf(model, point.layers);
  std::vector<double> terms =
      CostTerms(shape, {}).ComputeTerms(WorkOf(shape, point));
  TimesLayers(point.layers, &terms);
  terms.push_back(point.layers);
  return terms;
}

// Which costs of collectives there are, all of them 0.
planner::TimeModel CollectivesOf(const planner::ModelShape& model,
                                 const std::vector<ProfilePoint>& points) {
  std::set<int> beta;
  std::set<int> gamma;
  for (const ProfilePoint& point : points) {
    if (point.degree == 1) continue;
    const planner::SequenceSplit split = planner::SplitFor(model, point.degree);
    if (planner::ExchangesAll(split)) beta.insert(point.degree);
    if (split.gather_degree > 1) gamma.insert(point.degree);
  }
  planner::TimeModel costs;
  for (const int degree : beta) costs.collective.push_back({degree, 0});
  for (const int degree : gamma) costs.gather.push_back({degree, 0});
  return costs;
}

// A call's terms stay, a token's become those of one layer.
std::vector<double> CollectiveTerms(const jobspec::ModelSpec& model,
                                    const ProfilePoint& point,
                                    const planner::TimeModel& all) {
  const planner::ModelShape shape = ShapeOf(model, point.layers);
  std::vector<double> terms =
      CostTerms(shape, all).CollectiveTerms(WorkOf(shape, point));
  for (size_t i = CostTerms::kLatencies; i < terms.size(); ++i) {
    terms[i] *= point.layers;
  }
  return terms;
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

std::vector<double> FitComputeTerms(const jobspec::ModelSpec& model,
                                    const std::vector<ProfilePoint>& points) {
  NormalEquations equations(
      static_cast<int>(ComputeTerms(model, points.front()).size()));
  for (const ProfilePoint& point : points) {
    if (point.held_out) continue;
    equations.AddRelative(ComputeTerms(model, point), point.compute_ns);
  }
  return SolveNonnegative(equations);
}

std::vector<double> FitCollectives(const jobspec::ModelSpec& model,
                                   const std::vector<ProfilePoint>& points,
                                   const planner::TimeModel& all) {
  NormalEquations equations(
      static_cast<int>(CollectiveTerms(model, points.front(), all).size()));
  for (const ProfilePoint& point : points) {
    if (point.held_out || point.degree == 1) continue;
    equations.AddRelative(CollectiveTerms(model, point, all),
                          point.collective_ns);
  }
  return SolveNonnegative(equations);
}

double FitStepFixed(const std::vector<StepFixedPoint>& points, int layers) {
  NormalEquations equations(2);
  for (const StepFixedPoint& point : points) {
    equations.AddRelative({1, static_cast<double>(point.layers)}, point.ns);
  }
  return Dot(SolveNonnegative(equations), {1, static_cast<double>(layers)});
}

double MeanError(const std::vector<ProfilePoint>& points, bool held_out) {
  double sum = 0;
  int count = 0;
  for (const ProfilePoint& point : points) {
    if (point.held_out != held_out || point.measured_ns() <= 0) continue;
    sum += std::abs(point.predicted_ns / point.measured_ns() - 1);
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

// From the costs of one layer to those of the model.
void SetCosts(const jobspec::ModelSpec& model, std::vector<double> compute,
              std::vector<double> collective, planner::TimeModel* costs) {
  const double layers = model.layers;
  const CostTerms terms(jobspec::ToModelShape(model), *costs);
  compute[CostTerms::kFixed] += compute.back() * layers;
  compute.pop_back();
  TimesLayers(layers, &compute);
  terms.SetComputeCosts(compute, costs);
  for (size_t i = CostTerms::kLatencies; i < collective.size(); ++i) {
    collective[i] *= layers;
  }
  terms.SetCollectiveCosts(collective, costs);
}

}  // namespace

ProfileFit FitProfile(const jobspec::ModelSpec& model,
                      const std::vector<StepFixedPoint>& step_fixed,
                      std::vector<ProfilePoint>* points) {
  const planner::ModelShape shape = jobspec::ToModelShape(model);
  ProfileFit fit;
  planner::TimeModel& costs = fit.costs;
  if (points->empty()) return fit;
  costs = CollectivesOf(shape, *points);
  const std::vector<double> compute = FitComputeTerms(model, *points);
  const std::vector<double> collective = FitCollectives(model, *points, costs);
  for (ProfilePoint& point : *points) {
    point.predicted_ns = Dot(compute, ComputeTerms(model, point));
    if (point.degree == 1) continue;
    point.predicted_ns += Dot(collective, CollectiveTerms(model, point, costs));
  }
  SetCosts(model, compute, collective, &costs);
  costs.step_fixed_ns =
      planner::FixedCostNs(FitStepFixed(step_fixed, model.layers));
  costs = planner::PlannableCosts(costs, shape);
  fit.fit_error = MeanError(*points, false);
  fit.held_out_error = MeanError(*points, true);
  return fit;
}

}  // namespace evenstep::trainer
