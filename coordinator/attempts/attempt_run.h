#ifndef EVENSTEP_COORDINATOR_ATTEMPTS_ATTEMPT_RUN_H_
#define EVENSTEP_COORDINATOR_ATTEMPTS_ATTEMPT_RUN_H_

// One attempt from its assignment to the last process that is gone: its steps,
// its ranks, its nodes, how it starts and how it ends. Takes what nodes do and
// what messages say, tells the nodes, and decides what is to happen to the job.
// That decision is AttemptSupervisor's to carry out: nothing here knows the
// store, the node table or the planner threads.
//
// NextAction is asked after every event, until it says kNone. Messages have
// passed message_check.h. Not thread-safe; times are the monotonic clock's.

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/attempts/attempt_ending.h"
#include "coordinator/attempts/node_run.h"
#include "coordinator/attempts/rank_reports.h"
#include "coordinator/attempts/stall_watch.h"
#include "coordinator/steps/job_steps.h"
#include "evenstep/v1/agent.pb.h"
#include "jobspec/job_spec.h"

namespace evenstep::coordinator {

// The start of an attempt: trainers begin when every node has taken its share
// of the ranks. Until a node's trainers have spoken, a node that goes away
// loses only the start, and the job is queued again.
struct AttemptStart {
  absl::Duration deadline;
  bool begun = false;                    // the nodes were told to begin
  bool complete = false;                 // every rank has passed the first gate
  std::optional<std::string> lost = {};  // why
};

// What is to happen to the job of an attempt.
struct AttemptAction {
  enum Kind {
    kNone,
    kStarted,  // every rank has passed the first gate
    kRequeue,  // the start was lost, which is no failure of the job
    kFail,
    kSucceed,
    kFinish,  // the attempt is over and nothing of it lives
  };
  Kind kind = kNone;
  FailureCause cause = {};  // of kRequeue and kFail
};

// How the agent of a node comes back.
enum class NodeReturn {
  kWithAttempt,
  kWithoutAttempt,  // the same process, which does not run the attempt
  kRestarted,       // another process: the trainers of the old one have ended
};

class AttemptRun {
 public:
  // `job`: with its placements. `links` and `times` outlive the run.
  AttemptRun(const v1::Job& job, const jobspec::JobSpec& spec,
             AttemptLinks& links, const AttemptTimes& times,
             absl::Duration now);
  AttemptRun(const AttemptRun&) = delete;
  AttemptRun& operator=(const AttemptRun&) = delete;

  const v1::AttemptId& id() const { return id_; }
  const jobspec::JobSpec& spec() const { return spec_; }
  JobSteps& steps() { return steps_; }
  const JobSteps& steps() const { return steps_; }
  RankReports& ranks() { return ranks_; }
  const RankReports& ranks() const { return ranks_; }
  NodeRuns& nodes() { return nodes_; }
  const NodeRuns& nodes() const { return nodes_; }
  AttemptStart& start() { return start_; }
  AttemptEnding& ending() { return ending_; }
  bool stopping() const { return ending_.stopping(); }

  // Sends every node its share.
  void Assign(absl::Duration now);

  // The node holds its share; with the last one all nodes are told to begin.
  void TakeShare(NodeRun& node, absl::Duration now);
  void Rejoin(NodeRun& node, NodeReturn how, absl::Duration now);
  // The node's stream is over; its lease is not.
  void Disconnect(NodeRun& node);
  void Lose(NodeRun& node, absl::Duration silence, absl::Duration now);
  // The node's agent says that nothing of the attempt lives there.
  void ConfirmEnd(NodeRun& node, absl::Duration now);

  // The plan goes to all nodes.
  void SendPlan(const v1::StepPlan& plan, absl::Duration now);
  // The coordinator itself was stopped: nobody could report.
  void ForgiveSilence(absl::Duration now) { stall_.Forgive(now); }
  // Who writes the weights of an attempt that fails.
  int WeightsRank() const;

  // Deadlines, several times a second. Returns lost nodes that are waited for
  // no longer.
  std::vector<std::string> CheckTimes(absl::Duration now);
  AttemptAction NextAction(absl::Duration now) const;

 private:
  bool IsUnheardStart(const NodeRun& node) const;
  void Tell(const NodeRun& node, const v1::CoordinatorMessage& message,
            absl::Duration now);
  void Resend(const NodeRun& node, absl::Duration now);

  const v1::AttemptId id_;
  const jobspec::JobSpec spec_;
  const v1::Assignment assignment_;  // but for a node's own ranks
  AttemptLinks& links_;
  const AttemptTimes& times_;
  NodeRuns nodes_;
  JobSteps steps_;
  RankReports ranks_;
  AttemptStart start_;
  AttemptEnding ending_;
  StallWatch stall_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_ATTEMPTS_ATTEMPT_RUN_H_
