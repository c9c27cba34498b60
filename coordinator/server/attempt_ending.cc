// How an attempt ends: why, when, and until nothing of it lives; a third of
// AttemptSupervisor.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/server/attempt_supervisor.h"
#include "wire/message_bounds.h"

namespace evenstep::coordinator {
namespace {

// Lost starts of a job in a row: beyond this it is the job that ends agents.
constexpr int kMaxLostStarts = 5;
// Ranks that an error names; it counts the others.
constexpr size_t kNamedRanks = 16;

std::string FirstFew(const std::vector<int>& ranks) {
  const size_t named = std::min(ranks.size(), kNamedRanks);
  std::string text = absl::StrJoin(ranks.begin(), ranks.begin() + named, ", ");
  if (named < ranks.size()) {
    absl::StrAppend(&text, " and ", ranks.size() - named, " more");
  }
  return text;
}

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
  abandon->set_weights_rank(WeightsRank(live));
  SendToAll(live, live.stop_message);
}

// Who writes the weights of an attempt that fails: the lowest rank that is not
// known to be gone. Rank 0 writes without an order. If only the stream of its
// node is lost, two ranks may write the same weights, into two files. -1:
// nobody, they were written.
int AttemptSupervisor::WeightsRank(const Live& live) {
  if (!RecordOf(live).job.weights_path().empty()) return -1;
  for (int rank = 0; rank < live.attempt.world(); ++rank) {
    const std::string& node = live.attempt.NodeOf(rank);
    if (!live.attempt.HasExited(rank) && !live.attempt.IsGone(node) &&
        parts_.nodes.IsConnected(node)) {
      return rank;
    }
  }
  return 0;
}

// Where the attempt's weights are, or why it left none.
void AttemptSupervisor::TakeWeights(Live& live, const std::string& node,
                                    const v1::TrainerExited& exited) {
  JobRecord& record = RecordOf(live);
  if (!record.job.weights_path().empty()) return;
  if (!exited.weights_path().empty()) {
    record.job.set_weights_path(wire::PersonText(exited.weights_path()));
    record.job.set_weights_steps(exited.weights_steps());
    record.job.set_weights_node(node);
    record.job.clear_weights_note();
  } else if (!exited.weights_note().empty()) {
    record.job.set_weights_note(wire::PersonText(exited.weights_note()));
  } else {
    return;
  }
  parts_.book.MarkChanged(record);
}

// The node's ranks may have written them, and nobody is there to say so.
void AttemptSupervisor::NoteLostWeights(Live& live, const std::string& node) {
  JobRecord& record = RecordOf(live);
  if (!record.job.weights_path().empty() ||
      !record.job.weights_note().empty() || record.job.steps_done() == 0) {
    return;
  }
  record.job.set_weights_note(
      absl::StrCat("node ", node,
                   " was lost before it said whether it wrote them; look into "
                   "out/",
                   record.job.job_id(), " of its work folder"));
  parts_.book.MarkChanged(record);
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

// The last resort where a report was lost or a rank hangs: the ranks wait for a
// plan without a limit of their own.
void AttemptSupervisor::CheckProgress(Live& live) {
  const JobRecord& record = RecordOf(live);
  LiveAttempt::Progress now;
  now.running = record.status.state == JobState::kRunning;
  now.planned = live.steps.next_step();
  now.lengths = live.steps.num_waiting_reports();
  now.steps_done = record.job.steps_done();
  now.step_reports = live.steps.num_step_reports();
  now.ranks_ended = live.attempt.num_ended_clean();
  if (now != live.progress) {
    live.progress = now;
    live.progress_at = Now();
  }
  const absl::Duration limit = times_.step_deadline;
  if (!now.running || limit == absl::ZeroDuration() ||
      Now() - live.progress_at < limit) {
    return;
  }
  AddCause(
      live,
      {"STEP_TIMEOUT",
       absl::StrCat(
           "no report and no plan came for ", absl::FormatDuration(limit),
           " (the coordinator's --step-deadline): ", DescribeStall(live))});
}

std::string AttemptSupervisor::DescribeStall(const Live& live) {
  std::vector<std::string> missing;
  const auto add = [&](const std::vector<int>& ranks, absl::string_view what) {
    if (ranks.empty()) return;
    missing.push_back(absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                                   FirstFew(ranks), " did not ", what));
  };
  for (const v1::StepPlan* plan : live.steps.HeldPlans()) {
    add(live.steps.RanksWithoutReport(plan->step()),
        absl::StrCat("report step ", plan->step()));
    break;  // later ones follow from it
  }
  const int64_t next = live.steps.next_step();
  add(live.steps.RanksWithoutLengths(),
      absl::StrCat("report the lengths of step ", next));
  if (live.steps.planning()) {
    missing.push_back(
        absl::StrCat("step ", next - 1, " is still with the planner"));
  }
  if (missing.empty()) add(live.attempt.RanksNotEnded(), "end");
  return absl::StrJoin(missing, "; ");
}

void AttemptSupervisor::ForgiveSilence() {
  for (const auto& [job_id, live] : live_) live->progress_at = Now();
}

void AttemptSupervisor::CheckTimes(Live& live) {
  if (!live.stopping) {
    CheckStart(live);
    CheckProgress(live);
    CheckUnexplained(live);
    return EndIfDue(live);
  }
  if (Now() >= live.end_at) EndNow(live);
  for (const auto& [node, when] : live.lost_at) {
    if (Now() < when + GoneAfter(live) || live.attempt.IsGone(node)) continue;
    live.attempt.MarkGone(node);
    NoteLostWeights(live, node);
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
