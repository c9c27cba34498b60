#ifndef EVENSTEP_COORDINATOR_SERVER_ATTEMPT_SUPERVISOR_H_
#define EVENSTEP_COORDINATOR_SERVER_ATTEMPT_SUPERVISOR_H_

// Takes an attempt from its assignment to the last process that is gone: hands
// out assignments and plans, collects reports, decides why an attempt ends, and
// holds the slots of each node until it has confirmed that nothing of the
// attempt lives there. Trainers begin when every node has taken its share of
// the ranks; until then a node that goes away costs nothing but another
// attempt. In four files: attempt_supervisor.cc starts, attempt_messages.cc
// listens, attempt_nodes.cc sees nodes come and go, attempt_ending.cc ends. The
// rules of ending:
//
//   lost start nothing was heard of the node's trainers: queued again
//   failure    Abandon to all nodes at once; after the job's stop time-out
//              EndAttempt, again and again
//   cancel     StopAttempt, which takes effect at the gate; then as above.
//              Before all ranks have passed the first one: EndAttempt at once
//   lost node  an attempt whose job is to end does not wait for it. One that is
//              to be queued again does, until the node says hello without the
//              attempt or nothing can keep its processes alive (GoneAfter): two
//              attempts of a job never live at once
//   restart    attempts found in the store are ended, then queued again
//
// Single owner: the event loop's thread; nothing blocks but the store.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "coordinator/placement/gang.h"
#include "coordinator/server/job_registry.h"
#include "coordinator/server/live_attempt.h"
#include "coordinator/server/metrics.h"
#include "coordinator/server/node_table.h"
#include "coordinator/server/rendezvous.h"
#include "coordinator/steps/plan_work.h"
#include "coordinator/steps/planner_pool.h"
#include "evenstep/v1/agent.pb.h"
#include "rpc/transport.h"

namespace evenstep::coordinator {

struct SupervisorTimes {
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

// What the supervisor works with; all outlive it.
struct SupervisorParts {
  JobRegistry& book;
  NodeTable& nodes;
  Rendezvous& rendezvous;
  Metrics& metrics;
  const Clock& clock;
  WorkRunner& planners;
  // Runs a function on the owner's thread, from any thread.
  std::function<void(std::function<void()>)> post;
  planner::PlannerFunctions planner;
};

class AttemptSupervisor {
 public:
  AttemptSupervisor(SupervisorParts parts, const SupervisorTimes& times);

  // Stores the allocation, then sends assignments. On an error of the store
  // the job stays queued.
  absl::Status Begin(const JobRecord& record,
                     const std::vector<NodeShare>& shares);
  // An attempt that the store knows from before a restart.
  void Restore(JobRecord& record);
  // The job must have an attempt. On an error of the store nothing happens.
  absl::Status Cancel(const JobRecord& record, const std::string& message);

  // A job without an attempt is over.
  void ForgetLostStarts(const std::string& job_id) {
    lost_starts_.erase(job_id);
  }

  void OnHello(const v1::AgentHello& hello, HelloKind kind);
  // Any message but hello and heartbeat. An error: it was refused, by the rules
  // of message_check.h, and nothing has changed.
  absl::Status OnMessage(const std::string& node,
                         const v1::AgentMessage& message);
  // The node's stream is over; its lease is not.
  void OnDisconnected(const std::string& node);
  void OnLost(const LostNode& lost);
  // No attempt says that the node's name is another agent's.
  bool MayTakeName(const v1::AgentHello& hello) const;
  void Tick();
  // The coordinator itself was stopped: nobody could report.
  void ForgiveSilence();

  // By node, of all attempts whose processes may live there.
  std::map<std::string, int> UsedSlots() const;
  // Nodes that a stopping job waits for though they are not connected, and for
  // how long at most. Empty: none.
  std::string DescribeWait(const std::string& job_id) const;

 private:
  using Live = LiveAttempt;

  absl::Duration Now() const { return parts_.clock.Monotonic(); }
  Live& Add(const v1::Job& job, const jobspec::JobSpec& spec);
  Live* Find(const v1::AttemptId& id);
  JobRecord& RecordOf(const Live& live);

  absl::Duration GoneAfter(const Live& live) const;
  void EndLeftovers();
  void SendAssignments(Live& live);
  void SendAssignment(const Live& live, const NodeShare& share);
  void Reassign(Live& live, const std::string& node);
  bool IsOwn(const Live& live, const std::string& node) const;
  bool IsUnheardStart(Live& live, const std::string& node);
  std::vector<std::string> JobsOn(const std::string& node) const;
  void GreetAttempt(Live& live, const v1::AgentHello& hello, HelloKind kind);
  void MarkReady(Live& live, const std::string& node);
  void SendBegin(Live& live, const std::string& node);
  void SendTo(const Live& live, const std::string& node,
              const v1::CoordinatorMessage& message);
  void SendToAll(const Live& live, const v1::CoordinatorMessage& message);
  void SendEnd(Live& live, const std::string& node);
  void EndNow(Live& live);
  void Resend(Live& live, const std::string& node);

  // Of messages that message_check.h lets through.
  void Handle(Live& live, const std::string& node,
              const v1::AgentMessage& message);
  void OnLengths(Live& live, const v1::LengthReport& report);
  void OnStep(Live& live, const v1::StepReport& report);
  void OnCosts(Live& live, const v1::CostModel& costs);
  void OnData(Live& live, const v1::RankData& message);
  void OnIndexing(Live& live, const v1::RankData& message);
  void OnStarted(Live& live, const v1::RankStarted& message);
  void OnAbandon(Live& live, const std::string& node,
                 const v1::AbandonRequest& message);
  void OnExited(Live& live, const std::string& node,
                const v1::TrainerExited& message);
  void OnEnded(Live& live, const std::string& node);
  int64_t TakeLineNumbers(Live& live, const std::string& node,
                          const v1::LogBatch& message);
  void OnLogs(Live& live, const std::string& node, const v1::LogBatch& message);

  void PumpPlans(Live& live);
  void OnPlanned(const v1::AttemptId& id, PlanOutcome outcome);
  void OnCommitted(Live& live, const CommittedStep& step);
  void LogDrift(const Live& live, int64_t step, double drift);
  void CountRefusedEstimate(const Live& live, absl::string_view source,
                            int64_t step, const absl::Status& why);

  void AddCause(Live& live, Cause cause);
  void EndIfDue(Live& live);
  bool AwaitsNode(const Live& live) const;
  void Fail(Live& live, const Cause& cause);
  int WeightsRank(const Live& live);
  void TakeWeights(Live& live, const std::string& node,
                   const v1::TrainerExited& exited);
  void NoteLostWeights(Live& live, const std::string& node);
  void PutBack(Live& live, const std::string& message);
  void Succeed(Live& live);
  void Stop(Live& live, const JobMove& move);
  void BeginStop(Live& live, const JobMove& move);
  void CheckStart(Live& live);
  void CheckProgress(Live& live);
  std::string DescribeStall(const Live& live);
  void CheckUnexplained(Live& live);
  void CheckTimes(Live& live);
  void FinishIfGone(const std::string& job_id);

  const SupervisorParts parts_;
  const SupervisorTimes times_;
  std::map<std::string, std::unique_ptr<Live>> live_;  // by job
  std::map<std::string, int> lost_starts_;             // in a row, by job
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_ATTEMPT_SUPERVISOR_H_
