#ifndef EVENSTEP_WORKER_TRAINER_PROFILE_MEASURE_CLIP_COSTS_H_
#define EVENSTEP_WORKER_TRAINER_PROFILE_MEASURE_CLIP_COSTS_H_

// Costs of a video model, measured when an attempt starts, as measure_costs.h
// does for text: a very small clip, one frame of many patches, many frames of
// one patch, and two clips in between tell the pairs of spatial layers from
// those of temporal ones. What a token costs in either kind of layer is the
// same and is given to them by halves. Main thread only.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/clip.h"
#include "data/dataset.h"
#include "planner/request.h"
#include "worker/trainer/profile/measure_costs.h"

namespace evenstep::trainer {

struct ClipMeasureOptions {
  planner::ModelShape model;
  int64_t patch_values = 1;
  int64_t tokens_per_rank = 0;            // no measured clip is larger
  planner::LayerCounts recompute_layers;  // as the job runs
  int repeats = 3;
  int64_t long_tokens = 1024;
};

// As MeasureCosts. Collective over the world.
absl::StatusOr<planner::TimeModel> MeasureClipCosts(
    const ClipMeasureOptions& options, const MeasuredParts& parts);

// A clip of zeros: what it shows does not change the cost.
data::SampleTokens MadeUpClip(const data::ClipShape& shape,
                              int64_t patch_values);

// Distinct; none of more tokens than memory allows.
std::vector<data::ClipShape> MeasuredShapes(const ClipMeasureOptions& options);

// One clip alone in a micro-batch at degree 1.
struct ClipPoint {
  data::ClipShape shape;
  double ns = 0;
};

// Fixed cost, and costs of both kinds of layer without recompute, by least
// squares of relative errors, none below zero. Pure.
planner::TimeModel FitClipCompute(absl::Span<const ClipPoint> points,
                                  const ClipMeasureOptions& options);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PROFILE_MEASURE_CLIP_COSTS_H_
