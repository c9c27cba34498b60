#include "worker/trainer/profile/measure_clip_costs.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/nonnegative_fit.h"
#include "base/status_macros.h"
#include "planner/costs/cost_limits.h"

namespace evenstep::trainer {
namespace {

using data::ClipShape;

constexpr int64_t kTinyTokens = 16;

// What a layer of a kind costs more where some of them are recomputed.
double RecomputeFactor(const ClipMeasureOptions& options, int kind) {
  return 1 + options.recompute_layers[kind] /
                 (3.0 * std::max(1, options.model.layers()[kind]));
}

// Terms of the fixed cost, a token, a pair of patches and a pair of frames.
std::vector<double> TermsOf(const ClipShape& shape,
                            const ClipMeasureOptions& options) {
  const auto tokens = static_cast<double>(shape.tokens());
  const double spatial = RecomputeFactor(options, 0);
  const double temporal = RecomputeFactor(options, 1);
  return {1, tokens * (spatial + temporal) / 2,
          tokens * static_cast<double>(shape.patches()) * spatial,
          tokens * static_cast<double>(shape.frames) * temporal};
}

absl::StatusOr<ClipPoint> MeasureClip(const ClipMeasureOptions& options,
                                      const MeasuredParts& parts,
                                      const ClipShape& shape) {
  wire::PlannedMicroBatch micro_batch;
  micro_batch.first_rank = parts.groups->rank();
  micro_batch.sample_ids = {0};
  micro_batch.lengths = {shape.tokens()};
  micro_batch.shapes = {shape};
  micro_batch.recompute_layers = options.recompute_layers[0];
  micro_batch.recompute_temporal_layers = options.recompute_layers[1];
  const data::SampleTokens sample = MadeUpClip(shape, options.patch_values);
  EVENSTEP_ASSIGN_OR_RETURN(
      const double ns, MeasureMicroBatchNs(
                           micro_batch, [&sample](int64_t) { return sample; },
                           options.repeats, parts.runner));
  return ClipPoint{shape, ns};
}

}  // namespace

data::SampleTokens MadeUpClip(const ClipShape& shape, int64_t patch_values) {
  auto clip = std::make_shared<data::Clip>();
  clip->shape = shape;
  clip->channels = patch_values;
  clip->values.resize(shape.tokens() * patch_values);
  data::SampleTokens sample;
  sample.clip = std::move(clip);
  return sample;
}

std::vector<ClipShape> MeasuredShapes(const ClipMeasureOptions& options) {
  const int64_t longest =
      std::clamp<int64_t>(options.tokens_per_rank, 1, options.long_tokens);
  const int64_t middle = std::max<int64_t>(1, longest / 4);
  const auto balanced = [](int64_t tokens) {
    const auto side = std::max<int64_t>(
        1, std::llround(std::floor(std::sqrt(static_cast<double>(tokens)))));
    return ClipShape{side, 1, tokens / side};
  };
  std::vector<ClipShape> shapes = {{1, 1, std::min(kTinyTokens, longest)},
                                   {1, 1, longest},
                                   {longest, 1, 1},
                                   balanced(middle),
                                   balanced(longest)};
  std::vector<ClipShape> distinct;
  for (const ClipShape& shape : shapes) {
    if (std::find(distinct.begin(), distinct.end(), shape) == distinct.end()) {
      distinct.push_back(shape);
    }
  }
  return distinct;
}

planner::TimeModel FitClipCompute(absl::Span<const ClipPoint> points,
                                  const ClipMeasureOptions& options) {
  planner::TimeModel costs;
  if (points.empty()) return costs;
  // Columns of one size.
  std::vector<double> scale(TermsOf(points[0].shape, options).size(), 0);
  for (const ClipPoint& point : points) {
    const std::vector<double> terms = TermsOf(point.shape, options);
    for (size_t i = 0; i < scale.size(); ++i) {
      scale[i] = std::max(scale[i], terms[i] / point.ns);
    }
  }
  NormalEquations equations(static_cast<int>(scale.size()));
  for (const ClipPoint& point : points) {
    std::vector<double> terms = TermsOf(point.shape, options);
    for (size_t i = 0; i < scale.size(); ++i) {
      terms[i] /= point.ns * scale[i];
    }
    equations.Add(terms, 1);
  }
  std::vector<double> found = SolveNonnegative(equations);
  for (size_t i = 0; i < scale.size(); ++i) found[i] /= scale[i];
  costs.micro_batch_fixed_ns = planner::FixedCostNs(found[0]);
  costs.spatial.linear_ns_per_token = found[1] / 2;
  costs.temporal.linear_ns_per_token = found[1] / 2;
  costs.spatial.quadratic_ns_per_token2 = found[2];
  costs.temporal.quadratic_ns_per_token2 = found[3];
  return costs;
}

absl::StatusOr<planner::TimeModel> MeasureClipCosts(
    const ClipMeasureOptions& options, const MeasuredParts& parts) {
  std::vector<ClipPoint> points;
  for (const ClipShape& shape : MeasuredShapes(options)) {
    // Ranks start together, so that each is timed beside busy neighbours.
    EVENSTEP_RETURN_IF_ERROR(parts.groups->world().Barrier());
    EVENSTEP_ASSIGN_OR_RETURN(ClipPoint point,
                              MeasureClip(options, parts, shape));
    points.push_back(point);
  }
  planner::TimeModel costs = FitClipCompute(points, options);
  EVENSTEP_RETURN_IF_ERROR(MeasureCollectives(options.model, parts, &costs));
  EVENSTEP_ASSIGN_OR_RETURN(const double step_ns, MeasureStepFixed(parts));
  costs.step_fixed_ns = planner::FixedCostNs(step_ns);
  return costs;
}

}  // namespace evenstep::trainer
