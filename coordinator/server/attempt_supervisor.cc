#include "coordinator/server/attempt_supervisor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "coordinator/server/message_check.h"
#include "google/protobuf/util/time_util.h"
#include "wire/job_spec_proto.h"

namespace evenstep::coordinator {
namespace {

using google::protobuf::util::TimeUtil;

// Lost starts of a job in a row: beyond this it is the job that ends agents.
constexpr int kMaxLostStarts = 5;

// The record of the job's next attempt.
JobRecord NextAttempt(const JobRecord& record,
                      const std::vector<NodeShare>& shares,
                      const NodeTable& nodes) {
  JobRecord next = WithoutAttempt(record);
  next.job.set_attempt(record.job.attempt() + 1);
  next.job.set_generation(record.job.generation() + 1);
  for (const NodeShare& share : shares) {
    v1::Placement* const placement = next.job.add_placements();
    placement->set_node(share.node);
    placement->set_first_rank(share.first_rank);
    placement->set_num_ranks(share.num_ranks);
    if (const Node* const node = nodes.Find(share.node)) {
      placement->set_folder_id(node->folder_id);
    }
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

// Says why a job that ends early has no weights, where no rank could: all were
// killed, or had nothing to write.
void NoteNoWeights(JobRecord& record) {
  const JobState next = record.status.after_stopping;
  if (!record.job.weights_path().empty() ||
      !record.job.weights_note().empty() ||
      (next != JobState::kFailed && next != JobState::kCancelled)) {
    return;
  }
  record.job.set_weights_note(
      record.job.steps_done() == 0
          ? "no step was done"
          : "every process was killed or lost before it wrote them");
}

void LogIfRefused(const absl::Status& moved) {
  if (!moved.ok()) Log(LogLevel::kError, "move_refused", {{"error", moved}});
}

}  // namespace

AttemptSupervisor::AttemptSupervisor(SupervisorParts parts,
                                     const AttemptTimes& times)
    : parts_(std::move(parts)),
      times_(times),
      links_(parts_.nodes, parts_.metrics),
      reports_(parts_.book, parts_.metrics, parts_.clock) {}

AttemptRun& AttemptSupervisor::Add(const v1::Job& job,
                                   const jobspec::JobSpec& spec) {
  auto run = std::make_unique<AttemptRun>(job, spec, links_, times_, Now());
  return *(runs_[job.job_id()] = std::move(run));
}

AttemptRun* AttemptSupervisor::Find(const v1::AttemptId& id) {
  const auto it = runs_.find(id.job_id());
  if (it == runs_.end()) return nullptr;
  AttemptRun& run = *it->second;
  return run.id().attempt() == id.attempt() ? &run : nullptr;
}

absl::Status AttemptSupervisor::Begin(const JobRecord& record,
                                      const std::vector<NodeShare>& shares) {
  EVENSTEP_ASSIGN_OR_RETURN(const jobspec::JobSpec spec,
                            wire::FromProto(record.job.spec()));
  JobRecord next = NextAttempt(record, shares, parts_.nodes);
  const v1::Job job = next.job;
  const std::string& job_id = job.job_id();
  EVENSTEP_RETURN_IF_ERROR(parts_.book.MoveDurably(
      std::move(next),
      {JobAction::kAllocate, JobState::kQueued, "ALLOCATED",
       absl::StrCat("attempt ", job.attempt(), " starts ",
                    Counted(spec.ranks, "rank"), " on ", NodeNames(shares))}));
  if (!job.has_started()) {  // the first attempt
    const int64_t submitted_ns =
        TimeUtil::TimestampToNanoseconds(job.submitted());
    parts_.metrics.ObserveQueueWait(parts_.clock.Wall() -
                                    absl::FromUnixNanos(submitted_ns));
  }
  AttemptRun& run = Add(job, spec);
  parts_.rendezvous.Open(run.id());
  Log(LogLevel::kInfo, "attempt_started",
      {{"job", job_id},
       {"attempt", job.attempt()},
       {"nodes", NodeNames(shares)}});
  run.Assign(Now());
  Settle(job_id);
  return absl::OkStatus();
}

void AttemptSupervisor::Restore(JobRecord& record) {
  // An attempt whose spec cannot be read any more is ended all the same.
  const auto spec = wire::FromProto(record.job.spec());
  AttemptRun& run = Add(record.job, spec.ok() ? *spec : jobspec::JobSpec());
  run.start().begun = true;  // as far as anybody knows
  for (NodeRun& node : run.nodes()) {
    node.state = NodeState::kLost;
    node.lost_at = Now() + times_.lease;
  }
  if (record.status.state == JobState::kStopping) {
    return run.ending().Begin(record.status.after_stopping,
                              record.job.message(), Now());
  }
  Stop(
      run,
      {JobAction::kStop, JobState::kQueued, "COORDINATOR_RESTARTED",
       absl::StrCat("the coordinator restarted; attempt ", record.job.attempt(),
                    " is ended and the job queued again")},
      Now());
}

absl::Status AttemptSupervisor::Cancel(const JobRecord& record,
                                       const std::string& message) {
  const auto it = runs_.find(record.job.job_id());
  if (it == runs_.end()) return absl::OkStatus();
  AttemptRun& run = *it->second;
  const bool was_stopping = run.stopping();
  if (was_stopping && record.status.after_stopping != JobState::kQueued) {
    return absl::OkStatus();
  }
  const JobMove move = {JobAction::kStop, JobState::kCancelled, "CANCELLED",
                        message};
  EVENSTEP_RETURN_IF_ERROR(parts_.book.MoveDurably(record, move));
  BeginStop(run, move, Now() + run.spec().timeouts.stop);
  run.ending().MarkCancelled();
  if (was_stopping) return absl::OkStatus();  // it is being ended already
  if (run.start().complete) {
    run.ending().SendStop();
  } else {
    run.ending().SendEnds(Now());
  }
  return absl::OkStatus();
}

void AttemptSupervisor::ForRunsOn(
    const std::string& node,
    const std::function<void(AttemptRun&, NodeRun&)>& change) {
  std::vector<std::string> jobs;
  for (const auto& [job_id, run] : runs_) jobs.push_back(job_id);
  for (const std::string& job_id : jobs) {
    AttemptRun& run = *runs_.at(job_id);
    NodeRun* const part = FindNode(run.nodes(), node);
    if (part == nullptr || IsGone(part->state) || !links_.IsOwn(*part)) {
      continue;
    }
    change(run, *part);
    Settle(job_id);
  }
}

void AttemptSupervisor::OnHello(const v1::AgentHello& hello, HelloKind kind) {
  for (const v1::AttemptId& running : hello.running()) {
    AttemptRun* const run = Find(running);
    const NodeRun* const part =
        run == nullptr ? nullptr : FindNode(run->nodes(), hello.node());
    if (part != nullptr && links_.IsOwn(*part) && !IsGone(part->state)) {
      continue;
    }
    parts_.metrics.CountStaleMessage("hello");
    Log(LogLevel::kWarning, "leftover_attempt",
        {{"node", hello.node()},
         {"job", running.job_id()},
         {"attempt", running.attempt()}});
    parts_.nodes.AddLeftover(hello.node(), running);
  }
  parts_.nodes.EndLeftovers(Now(), times_.end_interval);
  ForRunsOn(hello.node(), [&](AttemptRun& run, NodeRun& node) {
    const NodeReturn how = Lists(hello, run.id()) ? NodeReturn::kWithAttempt
                           : kind == HelloKind::kReconnected
                               ? NodeReturn::kWithoutAttempt
                               : NodeReturn::kRestarted;
    run.Rejoin(node, how, Now());
  });
}

absl::Status AttemptSupervisor::OnMessage(const std::string& node,
                                          const v1::AgentMessage& message) {
  const v1::AttemptId& id = AttemptOf(message);
  if (message.has_ended()) parts_.nodes.RemoveLeftover(node, id);
  AttemptRun* const run = Find(id);
  const NodeRun* const part =
      run == nullptr ? nullptr : FindNode(run->nodes(), node);
  const bool is_own = part != nullptr && links_.IsOwn(*part);
  absl::Status status = reports_.Take(run, node, is_own, message);
  if (run != nullptr) Settle(id.job_id());
  return status;
}

void AttemptSupervisor::OnDisconnected(const std::string& node) {
  ForRunsOn(node, [](AttemptRun& run, NodeRun& part) { run.Disconnect(part); });
}

void AttemptSupervisor::OnLost(const LostNode& lost) {
  parts_.metrics.CountLostNode();
  Log(LogLevel::kWarning, "node_lost", {{"node", lost.name}});
  OnDisconnected(lost.name);
  ForRunsOn(lost.name, [&](AttemptRun& run, NodeRun& node) {
    run.Lose(node, lost.silence, Now());
  });
}

bool AttemptSupervisor::MayTakeName(const v1::AgentHello& hello) const {
  return std::all_of(runs_.begin(), runs_.end(), [&](const auto& entry) {
    const AttemptRun& run = *entry.second;
    const NodeRun* const node = FindNode(run.nodes(), hello.node());
    return node == nullptr || node->folder_id.empty() || IsGone(node->state) ||
           node->folder_id == FolderIdOf(hello);
  });
}

void AttemptSupervisor::Tick() {
  parts_.nodes.EndLeftovers(Now(), times_.end_interval);
  std::vector<std::string> job_ids;
  for (const auto& [job_id, run] : runs_) job_ids.push_back(job_id);
  for (const std::string& job_id : job_ids) {
    AttemptRun& run = *runs_.at(job_id);
    for (const std::string& node : run.CheckTimes(Now())) {
      reports_.NoteLostWeights(run, node);
    }
    Settle(job_id);
  }
}

void AttemptSupervisor::ForgiveSilence() {
  for (const auto& [job_id, run] : runs_) run->ForgiveSilence(Now());
}

std::map<std::string, int> AttemptSupervisor::UsedSlots() const {
  std::map<std::string, int> used;
  for (const auto& [job_id, run] : runs_) {
    for (const NodeRun& node : run->nodes()) {
      if (!IsGone(node.state)) used[node.name()] += node.share.num_ranks;
    }
  }
  return used;
}

std::string AttemptSupervisor::DescribeWait(const std::string& job_id) const {
  const auto it = runs_.find(job_id);
  return it == runs_.end() ? "" : it->second->ending().DescribeWait(Now());
}

// What follows from an event: to the job first, then the next plan.
void AttemptSupervisor::Settle(const std::string& job_id) {
  AttemptRun& run = *runs_.at(job_id);
  AttemptAction action = run.NextAction(Now());
  for (; action.kind != AttemptAction::kNone; action = run.NextAction(Now())) {
    if (action.kind == AttemptAction::kFinish) return Finish(job_id);
    Act(run, action);
  }
  if (!run.stopping()) PlanNext(run);
}

void AttemptSupervisor::Act(AttemptRun& run, const AttemptAction& action) {
  const absl::Duration end_at = Now() + run.spec().timeouts.stop;
  switch (action.kind) {
    case AttemptAction::kStarted:
      LogIfRefused(parts_.book.Move(
          *parts_.book.Find(run.id().job_id()),
          {JobAction::kStart, JobState::kQueued, "ALL_RANKS_STARTED",
           absl::StrCat("all of ", Counted(run.ranks().world(), "rank"),
                        " passed the first gate")}));
      run.start().complete = true;
      lost_starts_.erase(run.id().job_id());
      return;
    case AttemptAction::kRequeue:
      return Requeue(run, action.cause.message);
    case AttemptAction::kFail:
      return Fail(run, action.cause, end_at);
    case AttemptAction::kSucceed:
      return Stop(run,
                  {JobAction::kStop, JobState::kSucceeded, "COMPLETED",
                   absl::StrCat("trained ", run.spec().steps, " steps")},
                  end_at);
    case AttemptAction::kNone:
    case AttemptAction::kFinish:
      return;
  }
}

// A start that was lost with a node is no failure of the job.
void AttemptSupervisor::Requeue(AttemptRun& run, const std::string& message) {
  const int times = ++lost_starts_[run.id().job_id()];
  parts_.metrics.CountLostStart();
  if (times < kMaxLostStarts) {
    Stop(run,
         {JobAction::kStop, JobState::kQueued, "START_LOST",
          absl::StrCat(message, "; the job is queued again")},
         Now());
  } else {
    Fail(run,
         {"START_LOST",
          absl::StrCat(message, "; that happened ", times, " times")},
         Now());
  }
  run.ending().ReleaseUnbegun();
}

void AttemptSupervisor::Fail(AttemptRun& run, const FailureCause& cause,
                             absl::Duration end_at) {
  Stop(run, {JobAction::kStop, JobState::kFailed, cause.reason, cause.message},
       end_at);
  const v1::Job& job = parts_.book.Find(run.id().job_id())->job;
  // -1: nobody writes the weights, they were written.
  run.ending().SendAbandon(cause,
                           job.weights_path().empty() ? run.WeightsRank() : -1);
}

void AttemptSupervisor::Stop(AttemptRun& run, const JobMove& move,
                             absl::Duration end_at) {
  LogIfRefused(parts_.book.Move(*parts_.book.Find(run.id().job_id()), move));
  BeginStop(run, move, end_at);
}

void AttemptSupervisor::BeginStop(AttemptRun& run, const JobMove& move,
                                  absl::Duration end_at) {
  parts_.rendezvous.Close(run.id(), move.message);
  if (!run.stopping()) {
    Log(LogLevel::kInfo, "attempt_stops",
        {{"job", run.id().job_id()},
         {"attempt", run.id().attempt()},
         {"reason", move.reason},
         {"message", move.message}});
  }
  run.ending().Begin(move.after_stopping, move.message, end_at);
}

void AttemptSupervisor::Finish(const std::string& job_id) {
  JobRecord& record = *parts_.book.Find(job_id);
  NoteNoWeights(record);
  LogIfRefused(
      parts_.book.Move(record, {JobAction::kConfirmGone, JobState::kQueued,
                                record.job.reason(), record.job.message()}));
  Log(LogLevel::kInfo, "attempt_ended",
      {{"job", job_id},
       {"attempt", record.job.attempt()},
       {"state", std::string(JobStateName(record.status.state))}});
  if (IsFinal(record.status.state)) {
    parts_.metrics.CountFinishedJob(record.status.state);
    parts_.metrics.JobEnded(job_id, Now());
    lost_starts_.erase(job_id);
  }
  runs_.erase(job_id);
}

void AttemptSupervisor::PlanNext(AttemptRun& run) {
  std::optional<PlanWork> next = run.steps().NextWork();
  if (!next) return;
  const auto work = std::make_shared<PlanWork>(*std::move(next));
  parts_.planners.Run([this, id = run.id(), work] {
    auto outcome = std::make_shared<PlanOutcome>(
        PlanStep(*work, parts_.planner, parts_.clock));
    parts_.post([this, id, outcome] {
      parts_.metrics.ObservePlan(*outcome);
      AttemptRun* const run = Find(id);
      if (run == nullptr) return;
      reports_.TakePlan(*run, std::move(*outcome));
      Settle(id.job_id());
    });
  });
}

}  // namespace evenstep::coordinator
