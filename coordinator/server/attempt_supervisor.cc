#include "coordinator/server/attempt_supervisor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "rpc/transport.h"
#include "wire/job_spec_proto.h"

namespace evenstep::coordinator {
namespace {

using google::protobuf::util::TimeUtil;

v1::AttemptId IdOf(const v1::Job& job) {
  v1::AttemptId id;
  id.set_job_id(job.job_id());
  id.set_attempt(job.attempt());
  id.set_generation(job.generation());
  return id;
}

std::vector<NodeShare> SharesOf(const v1::Job& job) {
  std::vector<NodeShare> shares;
  for (const v1::Placement& placement : job.placements()) {
    shares.push_back(
        {placement.node(), placement.first_rank(), placement.num_ranks()});
  }
  return shares;
}

// The record of the job's next attempt.
JobRecord NextAttempt(const JobRecord& record,
                      const std::vector<NodeShare>& shares) {
  JobRecord next = record;
  v1::Job& job = next.job;
  job.set_attempt(job.attempt() + 1);
  job.set_generation(job.generation() + 1);
  job.set_steps_done(0);
  job.clear_placements();
  job.clear_recent_steps();
  job.clear_totals();
  job.clear_data();
  job.clear_costs();
  job.clear_weights_path();
  if (job.spec().has_costs()) *job.mutable_costs() = job.spec().costs();
  for (const NodeShare& share : shares) {
    v1::Placement* const placement = job.add_placements();
    placement->set_node(share.node);
    placement->set_first_rank(share.first_rank);
    placement->set_num_ranks(share.num_ranks);
  }
  return next;
}

std::string NodeNames(const std::vector<NodeShare>& shares) {
  return absl::StrJoin(shares, ", ", [](std::string* out, const auto& share) {
    absl::StrAppend(out, share.node);
  });
}

bool Lists(const v1::AgentHello& hello, const v1::AttemptId& id) {
  return std::any_of(hello.running().begin(), hello.running().end(),
                     [&](const v1::AttemptId& running) {
                       return running.job_id() == id.job_id() &&
                              running.attempt() == id.attempt();
                     });
}

v1::CoordinatorMessage EndMessage(const v1::AttemptId& id,
                                  const std::string& why) {
  v1::CoordinatorMessage message;
  *message.mutable_end()->mutable_attempt() = id;
  message.mutable_end()->set_message(why);
  return message;
}

}  // namespace

AttemptSupervisor::AttemptSupervisor(SupervisorParts parts,
                                     const SupervisorTimes& times)
    : parts_(std::move(parts)), times_(times) {}

JobRecord& AttemptSupervisor::RecordOf(const Live& live) {
  return *parts_.book.Find(live.attempt.id().job_id());
}

AttemptSupervisor::Live* AttemptSupervisor::Find(const v1::AttemptId& id) {
  const auto it = live_.find(id.job_id());
  if (it == live_.end()) return nullptr;
  Live& live = *it->second;
  return live.attempt.id().attempt() == id.attempt() ? &live : nullptr;
}

absl::Status AttemptSupervisor::Begin(const JobRecord& record,
                                      std::vector<NodeShare> shares) {
  EVENSTEP_ASSIGN_OR_RETURN(const jobspec::JobSpec spec,
                            wire::FromProto(record.job.spec()));
  JobRecord next = NextAttempt(record, shares);
  const v1::Job job = next.job;
  const std::string job_id = job.job_id();
  EVENSTEP_RETURN_IF_ERROR(parts_.book.MoveDurably(
      std::move(next),
      {JobAction::kAllocate, JobState::kQueued, "ALLOCATED",
       absl::StrCat("attempt ", job.attempt(), " starts ", spec.ranks,
                    " ranks on ", NodeNames(shares))}));
  if (job.attempt() == 1) {
    const int64_t submitted_ns =
        TimeUtil::TimestampToNanoseconds(job.submitted());
    parts_.metrics.ObserveQueueWait(parts_.clock.Wall() -
                                    absl::FromUnixNanos(submitted_ns));
  }
  Live& live = *(live_[job_id] = std::make_unique<Live>(
                     IdOf(job), std::move(shares), spec));
  live.start_deadline = Now() + spec.timeouts.start;
  parts_.rendezvous.Open(live.attempt.id());
  Log(LogLevel::kInfo, "attempt_started",
      {{"job", job_id},
       {"attempt", job.attempt()},
       {"nodes", NodeNames(live.attempt.shares())}});
  SendAssignments(live);
  return absl::OkStatus();
}

void AttemptSupervisor::SendAssignments(Live& live) {
  const v1::Job& job = RecordOf(live).job;
  for (const NodeShare& share : live.attempt.shares()) {
    SendAssignment(live, share);
  }
  if (!job.has_costs()) return;
  *live.costs.mutable_costs()->mutable_attempt() = live.attempt.id();
  *live.costs.mutable_costs()->mutable_costs() = job.costs();
  SendToAll(live, live.costs);
}

void AttemptSupervisor::SendAssignment(const Live& live,
                                       const NodeShare& share) {
  const v1::Job& job = RecordOf(live).job;
  v1::CoordinatorMessage message;
  v1::Assignment* const assignment = message.mutable_assignment();
  *assignment->mutable_attempt() = live.attempt.id();
  *assignment->mutable_spec() = job.spec();
  *assignment->mutable_placements() = job.placements();
  assignment->set_first_rank(share.first_rank);
  assignment->set_num_ranks(share.num_ranks);
  parts_.nodes.Send(share.node, message);
}

// The assignment was lost with the stream that it was on. An agent that has run
// the attempt meanwhile does not run it again.
void AttemptSupervisor::Reassign(Live& live, const std::string& node) {
  Log(LogLevel::kWarning, "assigned_again",
      {{"job", live.attempt.id().job_id()}, {"node", node}});
  for (const NodeShare& share : live.attempt.shares()) {
    if (share.node == node) SendAssignment(live, share);
  }
  Resend(live, node);
}

// How long a node's trainers may live after the node was last heard: until its
// agent finds the connection dead, its reconnect budget is spent and it has
// killed them. Trainers whose agent does not run end themselves in that time,
// but for a heartbeat, which is less than the lease.
absl::Duration AttemptSupervisor::GoneAfter() const {
  return rpc::kKeepaliveInterval + rpc::kKeepaliveTimeout +
         times_.reconnect_budget + times_.kill_grace + times_.lease;
}

void AttemptSupervisor::SendToAll(const Live& live,
                                  const v1::CoordinatorMessage& message) {
  for (const std::string& node : live.attempt.NodesNotGone()) {
    parts_.nodes.Send(node, message);
  }
}

void AttemptSupervisor::Restore(JobRecord& record) {
  // An attempt whose spec cannot be read any more is ended all the same.
  const auto spec = wire::FromProto(record.job.spec());
  Live& live = *(live_[record.job.job_id()] = std::make_unique<Live>(
                     IdOf(record.job), SharesOf(record.job),
                     spec.ok() ? *spec : jobspec::JobSpec()));
  for (const NodeShare& share : live.attempt.shares()) {
    live.gone_at[share.node] = Now() + GoneAfter();
  }
  if (record.status.state == JobState::kStopping) {
    live.stopping = true;
  } else {
    Stop(live, {JobAction::kStop, JobState::kQueued, "COORDINATOR_RESTARTED",
                absl::StrCat("the coordinator restarted; attempt ",
                             record.job.attempt(),
                             " is ended and the job queued again")});
  }
  live.end_at = Now();
}

absl::Status AttemptSupervisor::Cancel(const JobRecord& record,
                                       const std::string& message) {
  const auto it = live_.find(record.job.job_id());
  if (it == live_.end()) return absl::OkStatus();
  Live& live = *it->second;
  const bool was_stopping = live.stopping;
  if (was_stopping && record.status.after_stopping != JobState::kQueued) {
    return absl::OkStatus();
  }
  const bool has_gate = record.status.state != JobState::kStarting;
  const JobMove move = {JobAction::kStop, JobState::kCancelled, "CANCELLED",
                        message};
  EVENSTEP_RETURN_IF_ERROR(parts_.book.MoveDurably(record, move));
  BeginStop(live, move);
  live.cancelled = true;
  if (was_stopping) return absl::OkStatus();  // it is being ended already
  if (!has_gate) {
    EndNow(live);
    return absl::OkStatus();
  }
  v1::StopAttempt* const stop = live.stop_message.mutable_stop();
  *stop->mutable_attempt() = live.attempt.id();
  stop->set_message(message);
  SendToAll(live, live.stop_message);
  return absl::OkStatus();
}

void AttemptSupervisor::Stop(Live& live, const JobMove& move) {
  const absl::Status moved = parts_.book.Move(RecordOf(live), move);
  if (!moved.ok()) {
    Log(LogLevel::kError, "move_refused", {{"error", moved}});
  }
  BeginStop(live, move);
}

void AttemptSupervisor::BeginStop(Live& live, const JobMove& move) {
  parts_.rendezvous.Close(live.attempt.id(), move.message);
  if (live.stopping) return;
  live.stopping = true;
  live.end_at = Now() + live.spec.timeouts.stop;
  Log(LogLevel::kInfo, "attempt_stops",
      {{"job", live.attempt.id().job_id()},
       {"attempt", live.attempt.id().attempt()},
       {"reason", move.reason},
       {"message", move.message}});
}

void AttemptSupervisor::Fail(Live& live, const Cause& cause) {
  Stop(live,
       {JobAction::kStop, JobState::kFailed, cause.reason, cause.message});
  v1::Abandon* const abandon = live.stop_message.mutable_abandon();
  *abandon->mutable_attempt() = live.attempt.id();
  abandon->set_next_generation(0);
  abandon->set_reason(cause.reason);
  abandon->set_message(cause.message);
  SendToAll(live, live.stop_message);
}

void AttemptSupervisor::Succeed(Live& live) {
  Stop(live, {JobAction::kStop, JobState::kSucceeded, "COMPLETED",
              absl::StrCat("trained ", live.spec.steps, " steps")});
}

void AttemptSupervisor::AddCause(Live& live, Cause cause) {
  live.attempt.AddCause(std::move(cause), Now());
  EndIfDue(live);
}

bool AttemptSupervisor::AwaitsNode(const Live& live) const {
  const std::vector<std::string> nodes = live.attempt.NodesNotGone();
  return std::any_of(nodes.begin(), nodes.end(), [&](const auto& node) {
    return !parts_.nodes.IsConnected(node);
  });
}

void AttemptSupervisor::EndIfDue(Live& live) {
  const std::optional<Cause>& cause = live.attempt.cause();
  if (!cause) return;
  if (live.stopping) {
    // Trouble while stopping: nothing is gained by waiting for the gate.
    if (live.cancelled) live.end_at = std::min(live.end_at, Now());
    return;
  }
  if (!live.attempt.CauseIsDue(Now(), times_.cause_grace)) return;
  // A node without a stream may be the real cause; its lease will tell.
  if (cause->strength != CauseStrength::kProper && AwaitsNode(live)) return;
  Fail(live, *cause);
}

void AttemptSupervisor::SendEnd(Live& live, const std::string& node) {
  parts_.nodes.Send(
      node, EndMessage(live.attempt.id(), RecordOf(live).job.message()));
}

void AttemptSupervisor::EndNow(Live& live) {
  for (const std::string& node : live.attempt.NodesNotGone()) {
    SendEnd(live, node);
  }
  live.end_at = Now() + times_.end_interval;
}

// A node that lost its stream has lost what was sent meanwhile.
void AttemptSupervisor::Resend(Live& live, const std::string& node) {
  if (live.stopping) {
    if (Now() >= live.end_at ||
        live.stop_message.what_case() == v1::CoordinatorMessage::WHAT_NOT_SET) {
      return SendEnd(live, node);
    }
    parts_.nodes.Send(node, live.stop_message);
    return;
  }
  if (live.costs.has_costs()) parts_.nodes.Send(node, live.costs);
  for (const v1::StepPlan* plan : live.pipeline.HeldPlans()) {
    v1::CoordinatorMessage message;
    *message.mutable_plan()->mutable_attempt() = live.attempt.id();
    *message.mutable_plan()->mutable_plan() = *plan;
    parts_.nodes.Send(node, message);
  }
}

void AttemptSupervisor::OnHello(const v1::AgentHello& hello, HelloKind kind) {
  for (const v1::AttemptId& running : hello.running()) {
    if (Find(running) != nullptr) continue;
    parts_.metrics.CountStaleMessage("hello");
    parts_.nodes.Send(hello.node(), EndMessage(running, "the attempt is over"));
  }
  std::vector<std::string> ended;
  for (auto& [job_id, owned] : live_) {
    Live& live = *owned;
    if (!live.attempt.HasNode(hello.node()) ||
        live.attempt.IsGone(hello.node())) {
      continue;
    }
    live.gone_at.erase(hello.node());
    if (Lists(hello, live.attempt.id())) {
      Resend(live, hello.node());
      continue;
    }
    if (kind == HelloKind::kReconnected && !live.stopping &&
        RecordOf(live).status.state == JobState::kStarting &&
        !live.heard.contains(hello.node())) {
      Reassign(live, hello.node());
      continue;
    }
    live.attempt.MarkGone(hello.node());
    ended.push_back(job_id);
    if (live.stopping) continue;
    if (kind == HelloKind::kReconnected) {
      live.unexplained[hello.node()] = Now() + times_.explain_grace;
      continue;
    }
    AddCause(live, {"NODE_LOST",
                    absl::StrCat("node ", hello.node(),
                                 ": its agent restarted, the trainers are "
                                 "gone")});
  }
  for (const std::string& job_id : ended) FinishIfGone(job_id);
}

void AttemptSupervisor::OnLost(const std::string& node) {
  parts_.metrics.CountLostNode();
  Log(LogLevel::kWarning, "node_lost", {{"node", node}});
  for (auto& [job_id, live] : live_) {
    if (!live->attempt.HasNode(node) || live->attempt.IsGone(node)) continue;
    live->gone_at[node] = Now() + GoneAfter();
    AddCause(*live,
             {"NODE_LOST", absl::StrCat("node ", node, " was silent for ",
                                        absl::FormatDuration(times_.lease))});
  }
}

void AttemptSupervisor::CheckStart(Live& live) {
  if (RecordOf(live).status.state != JobState::kStarting ||
      Now() < live.start_deadline) {
    return;
  }
  AddCause(live,
           {"START_TIMEOUT",
            absl::StrCat("ranks ",
                         absl::StrJoin(live.attempt.RanksNotStarted(), ", "),
                         " did not reach the first gate within ",
                         absl::FormatDuration(live.spec.timeouts.start))});
}

void AttemptSupervisor::CheckUnexplained(Live& live) {
  for (const auto& [node, until] : live.unexplained) {
    if (live.stopping || Now() < until || live.attempt.ended_clean(node)) {
      continue;
    }
    AddCause(live, {"NODE_LOST", absl::StrCat("node ", node,
                                              ": its agent has no trainers of "
                                              "the job any more")});
  }
}

void AttemptSupervisor::CheckTimes(Live& live) {
  if (!live.stopping) {
    CheckStart(live);
    CheckUnexplained(live);
    return EndIfDue(live);
  }
  if (Now() >= live.end_at) EndNow(live);
  for (const auto& [node, when] : live.gone_at) {
    if (Now() >= when) live.attempt.MarkGone(node);
  }
}

void AttemptSupervisor::Tick() {
  std::vector<std::string> job_ids;
  for (const auto& [job_id, live] : live_) job_ids.push_back(job_id);
  for (const std::string& job_id : job_ids) {
    CheckTimes(*live_.at(job_id));
    FinishIfGone(job_id);
  }
}

void AttemptSupervisor::FinishIfGone(const std::string& job_id) {
  const auto it = live_.find(job_id);
  if (it == live_.end()) return;
  const Live& live = *it->second;
  if (!live.stopping || !live.attempt.all_gone()) return;
  JobRecord& record = RecordOf(live);
  const absl::Status moved =
      parts_.book.Move(record, {JobAction::kConfirmGone, JobState::kQueued,
                                record.job.reason(), record.job.message()});
  if (!moved.ok()) Log(LogLevel::kError, "move_refused", {{"error", moved}});
  Log(LogLevel::kInfo, "attempt_ended",
      {{"job", job_id},
       {"attempt", record.job.attempt()},
       {"state", std::string(JobStateName(record.status.state))}});
  if (IsFinal(record.status.state)) {
    parts_.metrics.CountFinishedJob(record.status.state);
    parts_.metrics.JobEnded(job_id, Now());
  }
  live_.erase(it);
}

std::map<std::string, int> AttemptSupervisor::UsedSlots() const {
  std::map<std::string, int> used;
  for (const auto& [job_id, live] : live_) {
    for (const NodeShare& share : live->attempt.shares()) {
      used[share.node] += share.num_ranks;
    }
  }
  return used;
}

}  // namespace evenstep::coordinator
