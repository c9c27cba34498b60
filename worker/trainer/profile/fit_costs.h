#ifndef EVENSTEP_WORKER_TRAINER_PROFILE_FIT_COSTS_H_
#define EVENSTEP_WORKER_TRAINER_PROFILE_FIT_COSTS_H_

// From measured times to the planner's time model (planner/request.h): pure
// arithmetic, no clock and no torch. Called once per attempt by MeasureCosts.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "planner/costs/cost_terms.h"
#include "planner/request.h"

namespace evenstep::trainer {

// One sample alone in a micro-batch at degree 1.
struct ComputePoint {
  planner::BatchWork work;
  double ns = 0;
};

// The fixed cost and the costs of the layers, none below zero, by least squares
// of relative errors; what a token costs outside the layers is counted in them.
// Both kinds of layer of a video model cost the same for a token. Zeros for no
// points.
planner::TimeModel FitCompute(const planner::ModelShape& model,
                              absl::Span<const ComputePoint> points);

// One all-to-all of a group: bytes that a rank holds, and its time.
struct AllToAllPoint {
  int64_t bytes = 0;
  double ns = 0;
};

struct AllToAllCosts {
  double latency_ns = 0;
  double ns_per_byte = 0;  // of the bytes that a rank holds
};

// The line through a small and a large exchange, with neither number below
// zero.
AllToAllCosts FitAllToAll(const AllToAllPoint& small,
                          const AllToAllPoint& large);

// Bytes that a rank hands to the all-to-alls of one forward and backward, over
// all layers, for each of its own tokens: queries and output by the width, keys
// and values by their share of heads, with the copies that the exchange makes
// of them; of a video model that switches, its tokens once a layer and pass.
double AllToAllBytesPerToken(const planner::ModelShape& model, int degree,
                             int bytes_per_element);

// Bytes that the ranks that share by heads have together after the gathers of
// keys and values of one forward and backward, over all layers, for each token
// of their group: those of forward, again in backward, and as much of their
// gradients, copies of heads included.
double GatherBytesPerToken(const planner::ModelShape& model, int degree,
                           int bytes_per_element);

// The middle value; the lower one of two. Zero for none.
double Median(std::vector<double> values);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PROFILE_FIT_COSTS_H_
