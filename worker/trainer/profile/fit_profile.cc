#include "worker/trainer/profile/fit_profile.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/nonnegative_fit.h"
#include "planner/costs/degrees.h"
#include "planner/costs/sample_size.h"
#include "planner/planner.h"

namespace evenstep::trainer {
namespace {

using jobspec::ProfilePoint;

constexpr int kDeepestLayers = 3;
constexpr int kComputeTerms = 5;  // f, g, h, p, q
// Collectives of a layer and pass, as TimeModel counts them.
constexpr double kUlyssesCalls = 4;
constexpr double kGatherCalls = 2;

// Sums over a micro-batch's samples.
struct Size {
  double tokens = 0;  // padded
  double pairs = 0;
};

Size SizeOf(const planner::ModelShape& model, const ProfilePoint& point) {
  const planner::SequenceSplit split = planner::SplitFor(model, point.degree);
  planner::BatchSize batch;
  for (const int64_t length : point.lengths) {
    batch += planner::SizeOf(model, split, {.length = length});
  }
  return {
      static_cast<double>(planner::PaddedTokens(batch.tokens, point.degree)),
      static_cast<double>(batch.pairs[0])};
}

std::vector<double> ComputeTerms(const planner::ModelShape& model,
                                 const ProfilePoint& point) {
  const Size size = SizeOf(model, point);
  const double layers = point.layers + point.recompute_layers / 3.0;
  return {1, static_cast<double>(point.layers), size.tokens / point.degree,
          layers * size.tokens / point.degree,
          layers * size.pairs / point.degree};
}

// Which costs of collectives there are: alpha, beta of each degree that shares
// by heads, gamma of each that gathers.
struct Collectives {
  std::vector<int> beta;
  std::vector<int> gamma;

  size_t num_terms() const { return 1 + beta.size() + gamma.size(); }
};

Collectives CollectivesOf(const planner::ModelShape& model,
                          const std::vector<ProfilePoint>& points) {
  std::set<int> beta;
  std::set<int> gamma;
  for (const ProfilePoint& point : points) {
    if (point.degree == 1) continue;
    const planner::SequenceSplit split = planner::SplitFor(model, point.degree);
    if (split.ulysses_degree > 1) beta.insert(point.degree);
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
  const double passes = 2.0 * point.layers + point.recompute_layers;
  const double moved = passes / 2 * SizeOf(model, point).tokens;
  std::vector<double> terms(all.num_terms());
  if (split.ulysses_degree > 1) {
    terms[0] += kUlyssesCalls * passes;
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
  NormalEquations equations(kComputeTerms);
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

// `fullest` divided by powers of four, down to `smallest`.
std::vector<int64_t> Quarters(int64_t fullest, int64_t smallest) {
  std::vector<int64_t> sizes;
  for (int64_t tokens = fullest; tokens >= std::min(smallest, fullest);
       tokens /= 4) {
    sizes.push_back(tokens);
  }
  return sizes;
}

// So many tokens in documents of at most `longest`.
std::vector<int64_t> Documents(int64_t tokens, int64_t longest) {
  std::vector<int64_t> lengths(tokens / longest, longest);
  if (tokens % longest > 0) lengths.push_back(tokens % longest);
  return lengths;
}

std::vector<int64_t> Joined(const std::vector<std::vector<int64_t>>& parts) {
  std::vector<int64_t> all;
  for (const auto& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// Sizes, mixtures and combinations that the fit has not seen.
void AddHeldOut(const ProfileShape& shape, int64_t fullest, int layers,
                std::vector<ProfilePoint>* points) {
  const auto part = [&](int64_t divisor) {
    return Documents(std::max<int64_t>(1, fullest / divisor), shape.longest);
  };
  std::vector<int> degrees = ProfileDegrees(shape);
  degrees.insert(degrees.begin(), 1);
  for (const int degree : degrees) {
    for (const std::vector<int64_t>& lengths :
         {part(2), part(8), Joined({part(2), part(4), part(8)})}) {
      points->push_back({.layers = layers,
                         .degree = degree,
                         .lengths = lengths,
                         .held_out = true});
    }
    points->push_back({.layers = layers,
                       .recompute_layers = (layers + 1) / 2,
                       .degree = degree,
                       .lengths = part(2),
                       .held_out = true});
  }
}

}  // namespace

std::vector<int> ProfileDepths(const jobspec::ModelSpec& model) {
  if (model.layers == 1) return {1};
  return {1, std::min(model.layers, kDeepestLayers)};
}

std::vector<int> ProfileDegrees(const ProfileShape& shape) {
  planner::PlanRequest request;
  request.cluster.ranks_per_node = {shape.ranks};
  request.model = jobspec::ToModelShape(shape.model);
  std::vector<int> degrees;
  for (const int degree : planner::LegalDegrees(request)) {
    if (degree > 1 && shape.ranks % degree == 0) degrees.push_back(degree);
  }
  return degrees;
}

std::vector<ProfilePoint> ProfilePoints(const ProfileShape& shape) {
  const int64_t fullest = shape.fullest > 0 ? shape.fullest : shape.longest;
  const std::vector<int> depths = ProfileDepths(shape.model);
  const std::vector<int64_t> sizes = Quarters(fullest, shape.smallest);
  const auto documents = [&](int64_t tokens) {
    return Documents(tokens, shape.longest);
  };
  std::vector<ProfilePoint> points;
  for (const int layers : depths) {
    for (const int64_t tokens : sizes) {
      points.push_back({.layers = layers, .lengths = documents(tokens)});
    }
  }
  const int deep = depths.back();
  for (const int64_t tokens : {fullest, std::max<int64_t>(1, fullest / 4)}) {
    points.push_back({.layers = deep,
                      .recompute_layers = deep,
                      .lengths = documents(tokens)});
  }
  // Tokens beside pairs of tokens, where all micro-batches are packed.
  if (fullest > shape.longest) {
    const int64_t brief = std::max<int64_t>(1, shape.longest / 16);
    points.push_back({.layers = deep, .lengths = Documents(fullest, brief)});
  }
  for (const int degree : ProfileDegrees(shape)) {
    for (const int64_t tokens : sizes) {
      points.push_back(
          {.layers = deep, .degree = degree, .lengths = documents(tokens)});
    }
  }
  AddHeldOut(shape, fullest, deep, &points);
  std::stable_sort(points.begin(), points.end(),
                   [](const ProfilePoint& a, const ProfilePoint& b) {
                     return a.layers < b.layers;
                   });
  return points;
}

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
  costs.micro_batch_fixed_ns = std::llround(compute[0] + compute[1] * layers);
  costs.head_ns_per_token = compute[2];
  costs.linear_ns_per_token = compute[3] * layers;
  costs.quadratic_ns_per_token2 = compute[4] * layers;
  costs.collective_latency_ns = std::llround(collective[0]);
  auto per_token = collective.begin() + 1;
  for (const int degree : all.beta) {
    costs.collective.push_back({degree, *per_token++ * layers});
  }
  for (const int degree : all.gamma) {
    costs.gather.push_back({degree, *per_token++ * layers});
  }
  costs.step_fixed_ns = std::llround(FitStepFixed(step_fixed, model.layers));
  fit.fit_error = MeanError(*points, false);
  fit.held_out_error = MeanError(*points, true);
  return fit;
}

}  // namespace evenstep::trainer
