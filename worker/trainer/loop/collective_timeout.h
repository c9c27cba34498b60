#ifndef EVENSTEP_WORKER_TRAINER_LOOP_COLLECTIVE_TIMEOUT_H_
#define EVENSTEP_WORKER_TRAINER_LOOP_COLLECTIVE_TIMEOUT_H_

// How long a rank waits for its peers in one collective before it takes them
// for lost. Pure functions; every rank computes the same from the same plan.

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "jobspec/job_spec.h"

namespace evenstep::trainer {

inline constexpr absl::Duration kShortestCollectiveTimeout = absl::Seconds(60);
// Beyond any use, and far from where clocks overflow.
inline constexpr absl::Duration kLongestTimeout = absl::Hours(7 * 24);
inline constexpr int kPredictedStepsPerTimeout = 10;

// The job's own, or else the larger of 60 s and ten predicted steps;
// predicted_step_ns of 0: nothing is predicted yet.
inline absl::Duration CollectiveTimeout(const jobspec::TimeoutSpec& timeouts,
                                        int64_t predicted_step_ns) {
  const absl::Duration predicted =
      kPredictedStepsPerTimeout * absl::Nanoseconds(predicted_step_ns);
  return std::min(kLongestTimeout, timeouts.collective.value_or(std::max(
                                       kShortestCollectiveTimeout, predicted)));
}

// Of building and warming groups, of measuring costs and of the first gate:
// ranks come to those as late as their start may take.
inline absl::Duration SetUpTimeout(const jobspec::TimeoutSpec& timeouts) {
  return std::min(kLongestTimeout, timeouts.start);
}

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LOOP_COLLECTIVE_TIMEOUT_H_
