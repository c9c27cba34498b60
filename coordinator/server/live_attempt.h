#ifndef EVENSTEP_COORDINATOR_SERVER_LIVE_ATTEMPT_H_
#define EVENSTEP_COORDINATOR_SERVER_LIVE_ATTEMPT_H_

// All that the attempt supervisor holds of one attempt while its processes may
// live. Plain data, used by the supervisor only.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/jobs/attempt.h"
#include "coordinator/steps/job_steps.h"
#include "evenstep/v1/agent.pb.h"
#include "jobspec/job_spec.h"

namespace evenstep::coordinator {

inline std::vector<int> RanksPerNode(const std::vector<NodeShare>& shares) {
  std::vector<int> ranks;
  ranks.reserve(shares.size());
  for (const NodeShare& share : shares) ranks.push_back(share.num_ranks);
  return ranks;
}

struct LiveAttempt {
  LiveAttempt(v1::AttemptId id, std::vector<NodeShare> shares,
              const jobspec::JobSpec& job_spec)
      : spec(job_spec),
        steps(spec, RanksPerNode(shares), id.generation()),
        attempt(std::move(id), std::move(shares)) {}

  jobspec::JobSpec spec;
  JobSteps steps;
  Attempt attempt;

  absl::Duration start_deadline = absl::InfiniteDuration();
  // How far the ranks' reports and the plans have come, and since when.
  struct Progress {
    bool running = false;
    int64_t planned = 0;  // steps
    int64_t lengths = 0;  // reports of steps that are not planned
    int64_t steps_done = 0;
    int64_t step_reports = 0;  // of steps that are not committed
    int ranks_ended = 0;
    bool operator==(const Progress&) const = default;
  };
  Progress progress;
  absl::Duration progress_at;
  bool stopping = false;
  // Work folders of the agents that were given the attempt, by node.
  std::map<std::string, std::string> folder_ids;
  // Nodes that hold their share and wait for the word to begin.
  std::set<std::string> ready;
  // Nodes were told to begin: trainers may live.
  bool begun = false;
  // Nodes that have spoken of the attempt's trainers: some live there.
  std::set<std::string> heard;
  bool cancelled = false;  // a trainer that stops is doing what was asked
  // What nodes are told while the stop time-out runs: Abandon or StopAttempt.
  v1::CoordinatorMessage stop_message;
  // From then on, nodes are told to end it.
  absl::Duration end_at = absl::InfiniteDuration();
  // Nodes that came back without the attempt: until when they may still say how
  // it ended.
  std::map<std::string, absl::Duration> unexplained;
  // Number of the last log line that each node sent on its present stream.
  std::map<std::string, int64_t> log_numbers;
  // Nodes that cannot be asked, and since when.
  std::map<std::string, absl::Duration> lost_at;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_LIVE_ATTEMPT_H_
