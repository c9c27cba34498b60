#ifndef EVENSTEP_COORDINATOR_ATTEMPTS_STALL_WATCH_H_
#define EVENSTEP_COORDINATOR_ATTEMPTS_STALL_WATCH_H_

// The last resort where a report was lost or a rank hangs: the ranks wait for a
// plan without a limit of their own, so the coordinator watches whether
// anything of a running attempt moves on. Pure; owned by AttemptRun.

#include <cstdint>
#include <string>
#include <tuple>

#include "absl/time/time.h"
#include "coordinator/attempts/rank_reports.h"
#include "coordinator/steps/job_steps.h"

namespace evenstep::coordinator {

class StallWatch {
 public:
  // Looks how far reports and plans have come. Returns for how long nothing has
  // moved on.
  absl::Duration Look(const JobSteps& steps, const RankReports& ranks,
                      absl::Duration now);
  // The coordinator itself was stopped: nobody could report.
  void Forgive(absl::Duration now) { since_ = now; }

 private:
  // Steps that were given to a planner, steps that are not committed, reports
  // of lengths and of such steps, ranks that have not ended clean.
  using Progress = std::tuple<int64_t, size_t, int64_t, int64_t, size_t>;
  Progress last_;
  absl::Duration since_;
};

// Which ranks the attempt waits for, and for what.
std::string DescribeStall(const JobSteps& steps, const RankReports& ranks);

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_ATTEMPTS_STALL_WATCH_H_
