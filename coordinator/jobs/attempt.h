#ifndef EVENSTEP_COORDINATOR_JOBS_ATTEMPT_H_
#define EVENSTEP_COORDINATOR_JOBS_ATTEMPT_H_

// What is known of the ranks and nodes of one attempt: who has started, ended,
// gone, what the ranks see of the data, and why the attempt cannot go on. Pure
// bookkeeping, owned by the attempt supervisor; not thread-safe. Time comes in
// as the monotonic clock's.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/placement/gang.h"
#include "evenstep/v1/agent.pb.h"

namespace evenstep::coordinator {

// Why an attempt ends. Peers of a killed trainer report a broken connection,
// often before the agent reports the death itself: a consequence waits a grace
// for its cause.
enum class CauseStrength {
  kConsequence,  // a peer failed, most likely
  kLikely,       // a trainer gave up without saying why
  kProper,       // this is what happened
};

struct Cause {
  std::string reason;  // machine-readable
  std::string message;
  CauseStrength strength = CauseStrength::kProper;
};

class Attempt {
 public:
  Attempt(v1::AttemptId id, std::vector<NodeShare> shares);

  const v1::AttemptId& id() const { return id_; }
  const std::vector<NodeShare>& shares() const { return shares_; }
  int world() const { return static_cast<int>(ranks_.size()); }
  bool HasRank(int rank) const { return rank >= 0 && rank < world(); }
  bool HasNode(const std::string& node) const;
  // Empty for a rank outside the attempt.
  const std::string& NodeOf(int rank) const;

  // Ignored for a rank outside the attempt.
  void MarkStarted(int rank);
  bool all_started() const;
  std::vector<int> RanksNotStarted() const;

  // FAILED_PRECONDITION naming the ranks that disagree, or the rank that saw
  // other data before. INVALID_ARGUMENT: a rank outside the attempt.
  absl::Status AddData(int rank, const v1::DataSummary& data);
  // Of all ranks, once all have reported.
  std::optional<v1::DataSummary> agreed_data() const;

  // The rank said that it cannot go on, or its process has ended. The cause is
  // remembered if it is stronger than the one before.
  void AddAbandonRequest(const v1::AbandonRequest& request, absl::Duration now);
  // `complete`: a clean end is what was wanted. A process ends once: false, and
  // nothing changes, when the rank's end is known.
  bool AddExit(const v1::TrainerExited& exited, bool complete,
               absl::Duration now);
  void AddCause(Cause cause, absl::Duration now);
  // Its process has ended, one way or another.
  bool HasExited(int rank) const { return ranks_[rank].exited; }
  bool all_ended_clean() const;
  int num_ended_clean() const;
  std::vector<int> RanksNotEnded() const;
  // All ranks of one node.
  bool ended_clean(const std::string& node) const;

  const std::optional<Cause>& cause() const { return cause_; }
  // A cause that need not wait any longer for a better one.
  bool CauseIsDue(absl::Duration now, absl::Duration grace) const;

  void MarkGone(const std::string& node) { gone_.insert(node); }
  bool IsGone(const std::string& node) const { return gone_.contains(node); }
  bool all_gone() const;
  std::vector<std::string> NodesNotGone() const;

 private:
  struct Rank {
    bool started = false;
    bool exited = false;
    bool ended_clean = false;
    bool gave_up = false;  // has sent an abandon request
    std::optional<v1::DataSummary> data;
  };

  const v1::AttemptId id_;
  const std::vector<NodeShare> shares_;
  std::vector<Rank> ranks_;
  std::set<std::string> gone_;
  std::optional<Cause> cause_;
  absl::Duration cause_since_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_JOBS_ATTEMPT_H_
