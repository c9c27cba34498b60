#ifndef EVENSTEP_COORDINATOR_SERVER_ATTEMPT_SUPERVISOR_H_
#define EVENSTEP_COORDINATOR_SERVER_ATTEMPT_SUPERVISOR_H_

// The attempts of all jobs. Gives each attempt's run what happens to its nodes
// (here) and what they say (AttemptReports), then does with its job what the
// run decides: stores the moves, closes the rendezvous, hands steps to the
// planner, and holds the slots of each node until nothing of the attempt lives
// there. What an attempt does when is in coordinator/attempts/attempt_run.h.
// Attempts that the store knows from before a restart are ended, then queued
// again.
//
// Single owner: the event loop's thread; nothing blocks but the store.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/clock.h"
#include "coordinator/attempts/attempt_run.h"
#include "coordinator/placement/gang.h"
#include "coordinator/server/attempt_reports.h"
#include "coordinator/server/job_registry.h"
#include "coordinator/server/metrics.h"
#include "coordinator/server/node_table.h"
#include "coordinator/server/rendezvous.h"
#include "coordinator/steps/plan_work.h"
#include "coordinator/steps/planner_pool.h"
#include "evenstep/v1/agent.pb.h"

namespace evenstep::coordinator {

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
  AttemptSupervisor(SupervisorParts parts, const AttemptTimes& times);

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
  absl::Duration Now() const { return parts_.clock.Monotonic(); }
  AttemptRun& Add(const v1::Job& job, const jobspec::JobSpec& spec);
  AttemptRun* Find(const v1::AttemptId& id);
  // `change` for every run that the node has a part in, then what follows.
  void ForRunsOn(const std::string& node,
                 const std::function<void(AttemptRun&, NodeRun&)>& change);

  void Settle(const std::string& job_id);
  void Act(AttemptRun& run, const AttemptAction& action);
  void Requeue(AttemptRun& run, const std::string& message);
  void Fail(AttemptRun& run, const FailureCause& cause, absl::Duration end_at);
  void Stop(AttemptRun& run, const JobMove& move, absl::Duration end_at);
  void BeginStop(AttemptRun& run, const JobMove& move, absl::Duration end_at);
  void Finish(const std::string& job_id);
  void PlanNext(AttemptRun& run);

  const SupervisorParts parts_;
  const AttemptTimes times_;
  NodeTableLinks links_;
  AttemptReports reports_;
  std::map<std::string, std::unique_ptr<AttemptRun>> runs_;  // by job
  std::map<std::string, int> lost_starts_;                   // in a row, by job
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_ATTEMPT_SUPERVISOR_H_
