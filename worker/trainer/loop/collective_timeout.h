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
inline constexpr int kPredictedStepsPerTimeout = 10;

// The job's own, or else the larger of 60 s and ten predicted steps;
// predicted_step_ns of 0: nothing is predicted yet.
inline absl::Duration CollectiveTimeout(const jobspec::TimeoutSpec& timeouts,
                                        int64_t predicted_step_ns) {
  const absl::Duration predicted =
      kPredictedStepsPerTimeout * absl::Nanoseconds(predicted_step_ns);
  return timeouts.collective.value_or(
      std::max(kShortestCollectiveTimeout, predicted));
}

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LOOP_COLLECTIVE_TIMEOUT_H_
