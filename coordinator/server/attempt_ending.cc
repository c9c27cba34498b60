// How an attempt ends: why, when, and until nothing of it lives; a third of
// AttemptSupervisor.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/server/attempt_supervisor.h"

namespace evenstep::coordinator {
namespace {

// Lost starts of a job in a row: beyond this it is the job that ends agents.
constexpr int kMaxLostStarts = 5;

}  // namespace

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

// A start that was lost with a node is no failure of the job. What was not told
// to begin has no processes, and need not be waited for.
void AttemptSupervisor::PutBack(Live& live, const std::string& message) {
  const std::string& job_id = live.attempt.id().job_id();
  const int times = ++lost_starts_[job_id];
  parts_.metrics.CountLostStart();
  if (times < kMaxLostStarts) {
    Stop(live, {JobAction::kStop, JobState::kQueued, "START_LOST",
                absl::StrCat(message, "; the job is queued again")});
  } else {
    Fail(live, {"START_LOST",
                absl::StrCat(message, "; that happened ", times, " times")});
  }
  live.end_at = Now();
  for (const std::string& node : live.attempt.NodesNotGone()) {
    if (live.begun || live.heard.contains(node)) continue;
    SendEnd(live, node);
    live.attempt.MarkGone(node);
  }
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
  v1::CoordinatorMessage message;
  *message.mutable_end()->mutable_attempt() = live.attempt.id();
  message.mutable_end()->set_message(RecordOf(live).job.message());
  SendTo(live, node, message);
}

void AttemptSupervisor::EndNow(Live& live) {
  for (const std::string& node : live.attempt.NodesNotGone()) {
    SendEnd(live, node);
  }
  live.end_at = Now() + times_.end_interval;
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
    lost_starts_.erase(job_id);
  }
  live_.erase(it);
}

}  // namespace evenstep::coordinator
