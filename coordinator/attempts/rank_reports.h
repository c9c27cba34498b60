#ifndef EVENSTEP_COORDINATOR_ATTEMPTS_RANK_REPORTS_H_
#define EVENSTEP_COORDINATOR_ATTEMPTS_RANK_REPORTS_H_

// What the ranks of one attempt have reported: which have started and ended,
// what each sees of the data, and what follows from a rank that gives up. Pure
// bookkeeping for AttemptRun; not thread-safe. Ranks outside the attempt are
// ignored.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/placement/gang.h"
#include "evenstep/v1/agent.pb.h"

namespace evenstep::coordinator {

// How sure it is that a cause is what ended the attempt. Peers of a killed
// trainer report a broken connection, often before the agent reports the death
// itself, so anything but a root cause waits for a better one.
enum class CauseKind {
  kConsequence,  // a peer failed, most likely
  kSuspected,    // a trainer gave up without saying why
  kRootCause,    // this is what happened
};

struct FailureCause {
  std::string reason;  // machine-readable
  std::string message;
  CauseKind kind = CauseKind::kRootCause;
};

class RankReports {
 public:
  explicit RankReports(const std::vector<NodeShare>& shares);

  int world() const { return static_cast<int>(ranks_.size()); }
  bool HasRank(int rank) const { return rank >= 0 && rank < world(); }
  // Empty for a rank outside the attempt.
  const std::string& NodeOf(int rank) const;

  void MarkStarted(int rank);
  bool all_started() const;
  std::vector<int> RanksNotStarted() const;

  // FAILED_PRECONDITION naming the ranks that disagree, or the rank that saw
  // other data before. INVALID_ARGUMENT: a rank outside the attempt.
  absl::Status AddData(int rank, const v1::DataSummary& data);
  // Of all ranks, once all have reported.
  std::optional<v1::DataSummary> agreed_data() const;

  // A rank, or the agent itself, cannot go on.
  FailureCause AddAbandonRequest(const v1::AbandonRequest& request);
  // A rank's process has ended; `complete`: a clean end is what was wanted.
  // Nothing: the end is clean, or the rank has given its reason before. A
  // process ends once: later ends of the same rank change nothing.
  std::optional<FailureCause> AddExit(const v1::TrainerExited& exited,
                                      bool complete);
  // Its process has ended, one way or another.
  bool HasExited(int rank) const { return ranks_[rank].exited; }
  bool all_ended_clean() const;
  // Those that have not ended clean.
  std::vector<int> RanksNotEnded() const;
  // All ranks of one node.
  bool ended_clean(const std::string& node) const;

 private:
  struct Rank {
    std::string node;
    bool started = false;
    bool exited = false;
    bool ended_clean = false;
    bool gave_up = false;  // has sent an abandon request
    std::optional<v1::DataSummary> data = {};
  };
  // "rank 1 (node0)"
  std::string NameOf(int rank) const;

  std::vector<Rank> ranks_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_ATTEMPTS_RANK_REPORTS_H_
