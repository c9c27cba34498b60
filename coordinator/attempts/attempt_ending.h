#ifndef EVENSTEP_COORDINATOR_ATTEMPTS_ATTEMPT_ENDING_H_
#define EVENSTEP_COORDINATOR_ATTEMPTS_ATTEMPT_ENDING_H_

// Why an attempt ends, and what its nodes are told until nothing of it lives:
//
//   failure    Abandon to all nodes at once; after the job's stop time-out
//              EndAttempt, again and again
//   cancel     StopAttempt, which takes effect at the gate; then as above.
//              Before all ranks have passed the first gate: EndAttempt at once
//   lost node  an attempt whose job is to end does not wait for it. One that is
//              to be queued again does, until the node says hello without the
//              attempt or nothing can keep its processes alive (GoneAfter): two
//              attempts of a job never live at once
//
// Owned by AttemptRun; not thread-safe. Times are the monotonic clock's.

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/attempts/node_run.h"
#include "coordinator/attempts/rank_reports.h"
#include "coordinator/jobs/job_state.h"
#include "evenstep/v1/agent.pb.h"
#include "rpc/transport.h"

namespace evenstep::coordinator {

struct AttemptTimes {
  // How long a node may be silent without a stream, and how much longer with an
  // open one. gRPC closes the stream of a host that does not answer.
  absl::Duration lease = absl::Seconds(5);
  absl::Duration stream_grace =
      rpc::kKeepaliveInterval + rpc::kKeepaliveTimeout;
  absl::Duration reconnect_budget = absl::Minutes(10);
  // How long to wait for a root cause before a secondary failure is reported.
  absl::Duration cause_grace = absl::Milliseconds(500);
  // How long a node that came back without the attempt may still say how it
  // ended.
  absl::Duration explain_grace = absl::Seconds(2);
  // From an agent's decision to end an attempt to its last process.
  absl::Duration kill_grace = absl::Seconds(8);
  // A running job from which nothing new has come for this long fails; 0:
  // never.
  absl::Duration step_deadline = absl::Hours(1);
  // Between two EndAttempts for the same attempt.
  absl::Duration end_interval = absl::Seconds(2);
};

class AttemptEnding {
 public:
  // All but the id outlive it.
  AttemptEnding(v1::AttemptId id, NodeRuns& nodes, AttemptLinks& links,
                const AttemptTimes& times);

  // Kept if it is stronger than the one before. In a cancelled attempt, which
  // cannot reach the gate now, the nodes are soon told to end it.
  void AddCause(FailureCause cause, absl::Duration now);
  // More trouble has come, perhaps of a cause that is known.
  void Hurry(absl::Duration now);
  // The cause, once nothing better is to be expected. Null: none, or the
  // attempt is ending already.
  const FailureCause* DueCause(absl::Duration now) const;

  // What follows (as JobStatus::after_stopping), the text for the agents, and
  // from when on nodes are told to end it. Again: only what follows and the
  // text change.
  void Begin(JobState after, const std::string& text, absl::Duration end_at);
  bool stopping() const { return stopping_; }
  // Told to all nodes while the stop time-out runs, after Begin.
  void SendAbandon(const FailureCause& cause, int weights_rank);
  void SendStop();
  // A user wants the end: a trainer that ends clean does what was asked.
  bool cancelled() const { return cancelled_; }
  void MarkCancelled() { cancelled_ = true; }

  // Tells all nodes to end it, and again after the interval.
  void SendEnds(absl::Duration now);
  // What a node that comes back has missed.
  void Resend(const NodeRun& node, absl::Duration now);
  // Nodes that were not told to begin have no processes, and need not be waited
  // for.
  void ReleaseUnbegun();
  // Sends what is due. Returns the lost nodes that are waited for no longer.
  std::vector<std::string> CheckTimes(absl::Duration now);
  // Nodes that are waited for though they are not connected, and for how long
  // at most. Empty: none.
  std::string DescribeWait(absl::Duration now) const;

 private:
  bool AwaitsNode() const;
  absl::Duration GoneAfter() const;
  void SendToAll(const v1::CoordinatorMessage& message);
  void SendEnd(const NodeRun& node);

  const v1::AttemptId id_;
  NodeRuns& nodes_;
  AttemptLinks& links_;
  const AttemptTimes& times_;
  std::optional<FailureCause> cause_;
  absl::Duration cause_since_;
  bool stopping_ = false;
  bool cancelled_ = false;
  JobState after_ = JobState::kQueued;
  std::string text_;
  // Abandon or StopAttempt.
  v1::CoordinatorMessage stop_message_;
  absl::Duration end_at_ = absl::InfiniteDuration();
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_ATTEMPTS_ATTEMPT_ENDING_H_
