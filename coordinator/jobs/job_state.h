#ifndef EVENSTEP_COORDINATOR_JOBS_JOB_STATE_H_
#define EVENSTEP_COORDINATOR_JOBS_JOB_STATE_H_

// The life of a job: states, actions, and the only moves that exist. Pure;
// JobRegistry asks here before it stores and streams a move, so a wrong move is
// a refused one and never a wrong state.
//
//   QUEUED -> STARTING -> RUNNING <-> RECOVERING
//     |  ^       |           |            |
//     |  |       +-----------+------------+--> STOPPING --> SUCCEEDED
//     |  +----------(after = QUEUED)--------------+   |---> FAILED
//     +----------> CANCELLED                          +---> CANCELLED
//
// STOPPING holds the slots of a node until no process of the attempt is left
// there, and remembers what follows (`after_stopping`).

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "evenstep/v1/job.pb.h"

namespace evenstep::coordinator {

// Numbers are those of the wire's JobState and of the store.
enum class JobState {
  kQueued = 1,
  kStarting = 2,
  kRunning = 3,
  kRecovering = 4,
  kStopping = 5,
  kSucceeded = 6,
  kFailed = 7,
  kCancelled = 8,
};

inline constexpr JobState kAllJobStates[] = {
    JobState::kQueued,     JobState::kStarting,  JobState::kRunning,
    JobState::kRecovering, JobState::kStopping,  JobState::kSucceeded,
    JobState::kFailed,     JobState::kCancelled,
};

enum class JobAction {
  kAllocate,      // slots are given, trainers start
  kStart,         // every rank has passed its first gate
  kLoseMember,    // a new generation must form
  kRecover,       // it has formed
  kStop,          // the attempt is to end; says what follows
  kConfirmGone,   // the last process of the attempt is gone
  kCancelQueued,  // a user's word before any attempt
  kRefuseQueued,  // no attempt can be made of it
};

inline constexpr JobAction kAllJobActions[] = {
    JobAction::kAllocate,     JobAction::kStart,        JobAction::kLoseMember,
    JobAction::kRecover,      JobAction::kStop,         JobAction::kConfirmGone,
    JobAction::kCancelQueued, JobAction::kRefuseQueued,
};

struct JobStatus {
  JobState state = JobState::kQueued;
  // What follows STOPPING; kQueued (its default) means another attempt.
  JobState after_stopping = JobState::kQueued;

  friend bool operator==(const JobStatus&, const JobStatus&) = default;
};

// `after_stopping` counts for kStop only. Stopping again changes what follows
// only from another attempt to an end: a cancelled job is not queued again, and
// a first cause is not replaced. FAILED_PRECONDITION for every other move.
absl::StatusOr<JobStatus> NextStatus(const JobStatus& status, JobAction action,
                                     JobState after_stopping);

// Nothing happens to the job any more.
bool IsFinal(JobState state);
// The job has an attempt whose processes may live.
bool HoldsSlots(JobState state);

// "QUEUED" and so on.
absl::string_view JobStateName(JobState state);
absl::string_view JobActionName(JobAction action);

// A job as the coordinator holds and stores it. The wire's Job is the record
// itself, so nothing is shown that is not stored; beside it is what users need
// not see. Plain data.
struct JobRecord {
  v1::Job job;  // recent_steps is kept in memory only
  JobStatus status;
  // Arrival: orders the queue and lists. Given by the store.
  int64_t arrival = 0;
  int64_t last_event = 0;  // sequence number of the newest event; 0: none
  int64_t last_log = 0;    // sequence number of the newest log line; 0: none
};

// The job as it is to users before its next attempt: without placements, steps
// and results of the last one.
JobRecord WithoutAttempt(const JobRecord& record);

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_JOBS_JOB_STATE_H_
