#ifndef EVENSTEP_WORKER_TRAINER_JOB_INDEX_REPORTER_H_
#define EVENSTEP_WORKER_TRAINER_JOB_INDEX_REPORTER_H_

// Says how far a rank is with indexing its data, which may take longer than all
// else before the first step: a line in its log now and then, and a message to
// the agent, from which the job's status and its start deadline follow. A rank
// that waits for another process to index says how far that one is, and no
// more once it stands still: a process that hangs must not hold a job up for
// good. Ends the indexing when the job is stopped. Main thread only.

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "data/dataset.h"
#include "worker/trainer/link/agent_channel.h"

namespace evenstep::trainer {

class IndexReporter {
 public:
  static constexpr absl::Duration kMessageInterval = absl::Seconds(2);
  static constexpr absl::Duration kLogInterval = absl::Seconds(10);

  // Neither is owned; both outlive the reporter.
  IndexReporter(AgentChannel* agent, const Clock* clock);

  // For jobspec::OpenData. CANCELLED: the job is to stop. UNAVAILABLE: the
  // agent is gone.
  absl::Status Report(const data::IndexProgress& progress);

 private:
  // Whether there is something new to tell.
  bool MovesOn(const data::IndexProgress& progress);

  AgentChannel* const agent_;
  const Clock* const clock_;
  absl::Duration next_message_;  // Clock::Monotonic
  absl::Duration next_log_;
  int64_t told_reports_ = -1;  // the newest of another process; -1: none yet
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_JOB_INDEX_REPORTER_H_
