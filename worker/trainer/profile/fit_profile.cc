#include "worker/trainer/profile/fit_profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "base/nonnegative_fit.h"
#include "planner/costs/cost_limits.h"
#include "planner/costs/degrees.h"
#include "planner/costs/sample_size.h"

namespace evenstep::trainer {
namespace {

using jobspec::ProfilePoint;

// Collectives of a layer and pass, as TimeModel counts them.
constexpr double kUlyssesCalls = 4;
constexpr double kGatherCalls = 2;
constexpr double kSwitchCalls = 1;

// Sums over a micro-batch's samples.
struct Size {
  double tokens = 0;  // padded
  std::array<double, planner::kMaxLayerKinds> pairs = {};
};

planner::Sample SampleAt(const ProfilePoint& point, size_t index) {
  planner::Sample sample;
  sample.length = point.lengths[index];
  if (point.shapes.empty()) return sample;
  sample.frames = point.shapes[index].frames;
  sample.height = point.shapes[index].height;
  sample.width = point.shapes[index].width;
  return sample;
}

Size SizeOf(const planner::ModelShape& model, const ProfilePoint& point) {
  const planner::SequenceSplit split = planner::SplitFor(model, point.degree);
  planner::BatchSize batch;
  for (size_t i = 0; i < point.lengths.size(); ++i) {
    batch += planner::SizeOf(model, split, SampleAt(point, i));
  }
  Size size;
  size.tokens =
      static_cast<double>(planner::PaddedTokens(batch.tokens, point.degree));
  for (int kind = 0; kind < planner::kMaxLayerKinds; ++kind) {
    size.pairs[kind] = static_cast<double>(batch.pairs[kind]);
  }
  return size;
}

// f, g, h, p, and q of every kind of layer.
std::vector<double> ComputeTerms(const planner::ModelShape& model,
                                 const ProfilePoint& point) {
  const Size size = SizeOf(model, point);
  const double degree = point.degree;
  const double layers = point.layers;
  const std::array<int, planner::kMaxLayerKinds> redone = {
      point.recompute_layers, point.recompute_temporal_layers};
  std::vector<double> terms = {1, layers, size.tokens / degree, 0};
  for (int kind = 0; kind < model.num_kinds(); ++kind) {
    const double run = layers / model.num_kinds() + redone[kind] / 3.0;
    terms[3] += run * size.tokens / degree;
    terms.push_back(run * size.pairs[kind] / degree);
  }
  return terms;
}

// Which costs of collectives there are: alpha, beta of each degree that shares
// by heads, gamma of each that gathers.
struct Collectives {
  std::vector<int> beta;
  std::vector<int> gamma;

  size_t num_terms() const { return 1 + beta.size() + gamma.size(); }
};

// By all-to-alls, of heads or of tokens.
bool ExchangesAll(const planner::SequenceSplit& split) {
  return split.ulysses_degree > 1 || split.mode == planner::SpMode::kSwitch;
}

Collectives CollectivesOf(const planner::ModelShape& model,
                          const std::vector<ProfilePoint>& points) {
  std::set<int> beta;
  std::set<int> gamma;
  for (const ProfilePoint& point : points) {
    if (point.degree == 1) continue;
    const planner::SequenceSplit split = planner::SplitFor(model, point.degree);
    if (ExchangesAll(split)) beta.insert(point.degree);
    if (split.gather_degree > 1) gamma.insert(point.degree);
  }
  return {{beta.begin(), beta.end()}, {gamma.begin(), gamma.end()}};
}

size_t PlaceOf(int degree, const std::vector<int>& degrees) {
  return std::find(degrees.begin(), degrees.end(), degree) - degrees.begin();
}

std::vector<double> CollectiveTerms(const planner::ModelShape& model,
                                    const ProfilePoint& point,
                                    const Collectives& all) {
  const planner::SequenceSplit split = planner::SplitFor(model, point.degree);
  const double passes = 2.0 * point.layers + point.recompute_layers +
                        point.recompute_temporal_layers;
  const double moved = passes / 2 * SizeOf(model, point).tokens;
  std::vector<double> terms(all.num_terms());
  if (ExchangesAll(split)) {
    const bool switches = split.mode == planner::SpMode::kSwitch;
    terms[0] += (switches ? kSwitchCalls : kUlyssesCalls) * passes;
    terms[1 + PlaceOf(point.degree, all.beta)] = moved / point.degree;
  }
  if (split.gather_degree > 1) {
    terms[0] += kGatherCalls * passes;
    terms[1 + all.beta.size() + PlaceOf(point.degree, all.gamma)] =
        moved / split.ulysses_degree;
  }
  return terms;
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Divided by the time: the fit is of relative errors.
void AddRelative(std::vector<double> terms, double ns,
                 NormalEquations* equations) {
  if (ns <= 0) return;
  for (double& term : terms) term /= ns;
  equations->Add(terms, 1);
}

std::vector<double> FitComputeTerms(const planner::ModelShape& model,
                                    const std::vector<ProfilePoint>& points) {
  constexpr int kSharedTerms = 4;
  NormalEquations equations(kSharedTerms + model.num_kinds());
  for (const ProfilePoint& point : points) {
    if (!point.held_out) {
      AddRelative(ComputeTerms(model, point), point.compute_ns, &equations);
    }
  }
  return SolveNonnegative(equations);
}

std::vector<double> FitCollectives(const planner::ModelShape& model,
                                   const std::vector<ProfilePoint>& points,
                                   const Collectives& all) {
  NormalEquations equations(static_cast<int>(all.num_terms()));
  for (const ProfilePoint& point : points) {
    if (!point.held_out && point.degree > 1) {
      AddRelative(CollectiveTerms(model, point, all), point.collective_ns,
                  &equations);
    }
  }
  return SolveNonnegative(equations);
}

double FitStepFixed(const std::vector<StepFixedPoint>& points, int layers) {
  NormalEquations equations(2);
  for (const StepFixedPoint& point : points) {
    AddRelative({1, static_cast<double>(point.layers)}, point.ns, &equations);
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

// p and q of all layers. Both kinds of a video model cost the same for a token.
void SetLayerCosts(const jobspec::ModelSpec& model,
                   const std::vector<double>& compute,
                   planner::TimeModel* costs) {
  if (!model.is_video()) {
    costs->linear_ns_per_token = compute[3] * model.layers;
    costs->quadratic_ns_per_token2 = compute[4] * model.layers;
    return;
  }
  const double layers = model.layers / 2.0;  // of either kind
  costs->spatial.linear_ns_per_token = compute[3] * layers;
  costs->spatial.quadratic_ns_per_token2 = compute[4] * layers;
  costs->temporal.linear_ns_per_token = compute[3] * layers;
  costs->temporal.quadratic_ns_per_token2 = compute[5] * layers;
}

}  // namespace

ProfileFit FitProfile(const jobspec::ModelSpec& model,
                      const std::vector<StepFixedPoint>& step_fixed,
                      std::vector<ProfilePoint>* points) {
  const planner::ModelShape shape = jobspec::ToModelShape(model);
  const std::vector<double> compute = FitComputeTerms(shape, *points);
  const Collectives all = CollectivesOf(shape, *points);
  const std::vector<double> collective = FitCollectives(shape, *points, all);
  for (ProfilePoint& point : *points) {
    point.predicted_ns = Dot(compute, ComputeTerms(shape, point));
    if (point.degree == 1) continue;
    point.predicted_ns += Dot(collective, CollectiveTerms(shape, point, all));
  }
  ProfileFit fit;
  planner::TimeModel& costs = fit.costs;
  const double layers = model.layers;
  costs.micro_batch_fixed_ns =
      planner::FixedCostNs(compute[0] + compute[1] * layers);
  costs.head_ns_per_token = compute[2];
  SetLayerCosts(model, compute, &costs);
  costs.collective_latency_ns = planner::FixedCostNs(collective[0]);
  auto per_token = collective.begin() + 1;
  for (const int degree : all.beta) {
    costs.collective.push_back({degree, *per_token++ * layers});
  }
  for (const int degree : all.gamma) {
    costs.gather.push_back({degree, *per_token++ * layers});
  }
  costs.step_fixed_ns =
      planner::FixedCostNs(FitStepFixed(step_fixed, model.layers));
  costs = planner::PlannableCosts(costs, shape);
  fit.fit_error = MeanError(*points, false);
  fit.held_out_error = MeanError(*points, true);
  return fit;
}

}  // namespace evenstep::trainer
