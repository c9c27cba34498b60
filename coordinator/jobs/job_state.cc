#include "coordinator/jobs/job_state.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace evenstep::coordinator {
namespace {

struct Move {
  JobState from;
  JobAction action;
  JobState to;
};

// Moves with one possible end. kConfirmGone and a second kStop depend on what
// follows and are handled below.
constexpr Move kMoves[] = {
    {JobState::kQueued, JobAction::kAllocate, JobState::kStarting},
    {JobState::kQueued, JobAction::kCancelQueued, JobState::kCancelled},
    {JobState::kQueued, JobAction::kRefuseQueued, JobState::kFailed},
    {JobState::kStarting, JobAction::kStart, JobState::kRunning},
    {JobState::kStarting, JobAction::kStop, JobState::kStopping},
    {JobState::kRunning, JobAction::kLoseMember, JobState::kRecovering},
    {JobState::kRunning, JobAction::kStop, JobState::kStopping},
    {JobState::kRecovering, JobAction::kRecover, JobState::kRunning},
    {JobState::kRecovering, JobAction::kStop, JobState::kStopping},
};

std::optional<JobState> Target(JobState from, JobAction action) {
  for (const Move& move : kMoves) {
    if (move.from == from && move.action == action) return move.to;
  }
  return std::nullopt;
}

bool MayFollowStopping(JobState state) {
  return IsFinal(state) || state == JobState::kQueued;
}

bool MayRedirect(const JobStatus& status, JobAction action, JobState after) {
  return status.state == JobState::kStopping && action == JobAction::kStop &&
         status.after_stopping == JobState::kQueued && IsFinal(after);
}

}  // namespace

absl::StatusOr<JobStatus> NextStatus(const JobStatus& status, JobAction action,
                                     JobState after_stopping) {
  if (status.state == JobState::kStopping &&
      action == JobAction::kConfirmGone) {
    return JobStatus{status.after_stopping, JobState::kQueued};
  }
  if (MayRedirect(status, action, after_stopping)) {
    return JobStatus{JobState::kStopping, after_stopping};
  }
  const std::optional<JobState> target = Target(status.state, action);
  const bool stops = action == JobAction::kStop;
  if (!target || (stops && !MayFollowStopping(after_stopping))) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a job that is ", JobStateName(status.state), " cannot ",
        JobActionName(action),
        stops ? absl::StrCat(" and become ", JobStateName(after_stopping))
              : ""));
  }
  return JobStatus{*target, stops ? after_stopping : JobState::kQueued};
}

bool IsFinal(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

bool HoldsSlots(JobState state) {
  return !IsFinal(state) && state != JobState::kQueued;
}

absl::string_view JobStateName(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "QUEUED";
    case JobState::kStarting:
      return "STARTING";
    case JobState::kRunning:
      return "RUNNING";
    case JobState::kRecovering:
      return "RECOVERING";
    case JobState::kStopping:
      return "STOPPING";
    case JobState::kSucceeded:
      return "SUCCEEDED";
    case JobState::kFailed:
      return "FAILED";
    case JobState::kCancelled:
      return "CANCELLED";
  }
  return "UNKNOWN";
}

absl::string_view JobActionName(JobAction action) {
  switch (action) {
    case JobAction::kAllocate:
      return "be given slots";
    case JobAction::kStart:
      return "start";
    case JobAction::kLoseMember:
      return "lose a member";
    case JobAction::kRecover:
      return "recover";
    case JobAction::kStop:
      return "stop";
    case JobAction::kConfirmGone:
      return "be confirmed gone";
    case JobAction::kCancelQueued:
      return "be cancelled in the queue";
    case JobAction::kRefuseQueued:
      return "be refused in the queue";
  }
  return "unknown action";
}

JobRecord WithoutAttempt(const JobRecord& record) {
  JobRecord without = record;
  v1::Job& job = without.job;
  job.set_steps_done(0);
  job.clear_placements();
  job.clear_recent_steps();
  job.clear_totals();
  job.clear_data();
  job.clear_costs();
  job.clear_weights_path();
  job.clear_weights_steps();
  job.clear_weights_node();
  job.clear_weights_note();
  job.clear_emulated_link();
  if (job.spec().has_costs()) *job.mutable_costs() = job.spec().costs();
  return without;
}

}  // namespace evenstep::coordinator
