#ifndef EVENSTEP_PLANNER_COSTS_FITS_H_
#define EVENSTEP_PLANNER_COSTS_FITS_H_

// What fits where: the degrees that can hold a sample, with padding, modes of
// sequence parallelism and memory counted. Used by policies and by submit time
// checks (CheckFits of planner.h). Stateless.

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planner/costs/degrees.h"
#include "planner/costs/memory_model.h"
#include "planner/request.h"

namespace evenstep::planner {

bool FitsAlone(const PlanRequest& request, int degree,
               const LayerCounts& recompute, const Sample& sample);
bool FitsSomeDegree(const PlanRequest& request, const LayerCounts& recompute,
                    const Sample& sample);
// The mode in which a rank holds most.
LayerCounts RoomiestMode(const PlanRequest& request);

// Whether samples fit one micro-batch together: indices into the request.
bool Fits(const PlanRequest& request, int degree, const LayerCounts& recompute,
          const std::vector<int>& samples);

// The smallest legal degree that holds the longest sample of the run (of the
// step, where the run does not say) with options.recompute_layers; of video
// also every sample of the step. With contiguous blocks, of those up to twice
// as wide the one that leaves the fewest ranks idle, for they idle for the
// whole run; the smaller of equals. FAILED_PRECONDITION with the numbers.
absl::StatusOr<int> StaticDegree(const PlanRequest& request);
// All legal degrees that hold it: what a user would try who tunes the one
// degree of a run. StaticDegree is among them. Empty if it fails.
std::vector<int> StaticDegrees(const PlanRequest& request);

// FAILED_PRECONDITION naming the sample, of text the longest, that no legal
// degree holds in any mode.
absl::Status CheckSamplesFit(const PlanRequest& request);

// The same of the request's one sample, which is as long as the run allows.
absl::Status CheckLongestFits(const PlanRequest& request);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_COSTS_FITS_H_
