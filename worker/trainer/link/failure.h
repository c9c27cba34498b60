#ifndef EVENSTEP_WORKER_TRAINER_LINK_FAILURE_H_
#define EVENSTEP_WORKER_TRAINER_LINK_FAILURE_H_

// Why a rank cannot go on, as an absl::Status that carries the machine-readable
// reason and the step. The loop returns such statuses, RunTrainer turns them
// into the Failure message and the exit code. Pure functions.
//
//   return FailureError(FailureReason::kNotFinite, step, "loss is nan");

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace evenstep::trainer {

enum class FailureReason {
  kStartFailed,
  kDataError,
  kNotFinite,
  kPlanMismatch,
  kCollectiveFailed,
  kOutOfMemory,
  kInternal,
  kStorageFull,  // no room for the weights
  kTerminated,   // SIGTERM to this process
  // Another rank cannot go on, and says why itself. Never voted at the gate.
  kPeerFailed,
};

// Exit codes are stable: the agent and its tests read them.
inline constexpr int kExitFinished = 0;  // all steps, or stopped when asked to
inline constexpr int kExitUsage = 2;
inline constexpr int kExitStartFailed = 10;
inline constexpr int kExitDataError = 11;
inline constexpr int kExitNotFinite = 12;
inline constexpr int kExitPlanMismatch = 13;
inline constexpr int kExitCollectiveFailed = 14;
inline constexpr int kExitOutOfMemory = 15;
inline constexpr int kExitInternal = 16;
inline constexpr int kExitPeerFailed = 17;
inline constexpr int kExitTerminated = 18;
inline constexpr int kExitStorageFull = 19;
inline constexpr int kExitAbandoned = 20;
inline constexpr int kExitAgentGone = 21;

inline constexpr int64_t kNoStep = -1;

// "NOT_FINITE" and so on, as in evenstep.v1.AbandonRequest.
absl::string_view FailureReasonName(FailureReason reason);
int FailureExitCode(FailureReason reason);

// A status with the reason and the step in payloads.
absl::Status FailureError(FailureReason reason, int64_t step,
                          absl::string_view message);
// The same for a status from elsewhere: its code and message stay. An OK status
// and one that already has a reason are returned as they are.
absl::Status WithReason(absl::Status status, FailureReason reason,
                        int64_t step);

// Marks a failure that all ranks have agreed on: none is in a step, and what is
// to be written has been.
absl::Status AgreedByAll(absl::Status status);
bool IsAgreedByAll(const absl::Status& status);

// kInternal and kNoStep where nothing else is known. RESOURCE_EXHAUSTED without
// a reason is kOutOfMemory.
FailureReason ReasonOf(const absl::Status& status);
int64_t StepOf(const absl::Status& status);

// What an error of a step runner, an optimizer or a collective means for the
// job.
FailureReason ReasonOfEngineError(const absl::Status& status);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LINK_FAILURE_H_
