#include "worker/trainer/link/failure.h"

#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace evenstep::trainer {
namespace {

constexpr char kReasonUrl[] = "evenstep/reason";
constexpr char kStepUrl[] = "evenstep/step";
constexpr char kAgreedUrl[] = "evenstep/agreed";

struct ReasonRow {
  FailureReason reason;
  const char* name;
  int exit_code;
  absl::StatusCode code;
};

constexpr ReasonRow kReasons[] = {
    {FailureReason::kStartFailed, "START_FAILED", kExitStartFailed,
     absl::StatusCode::kFailedPrecondition},
    {FailureReason::kDataError, "DATA_ERROR", kExitDataError,
     absl::StatusCode::kDataLoss},
    {FailureReason::kNotFinite, "NOT_FINITE", kExitNotFinite,
     absl::StatusCode::kFailedPrecondition},
    {FailureReason::kPlanMismatch, "PLAN_MISMATCH", kExitPlanMismatch,
     absl::StatusCode::kFailedPrecondition},
    {FailureReason::kCollectiveFailed, "COLLECTIVE_FAILED",
     kExitCollectiveFailed, absl::StatusCode::kUnavailable},
    {FailureReason::kOutOfMemory, "OUT_OF_MEMORY", kExitOutOfMemory,
     absl::StatusCode::kResourceExhausted},
    {FailureReason::kInternal, "INTERNAL", kExitInternal,
     absl::StatusCode::kInternal},
    {FailureReason::kStorageFull, "STORAGE_FULL", kExitStorageFull,
     absl::StatusCode::kResourceExhausted},
    {FailureReason::kTerminated, "TERMINATED", kExitTerminated,
     absl::StatusCode::kCancelled},
    {FailureReason::kPeerFailed, "PEER_FAILED", kExitPeerFailed,
     absl::StatusCode::kAborted},
};

const ReasonRow& Row(FailureReason reason) {
  return kReasons[static_cast<int>(reason)];
}

std::optional<std::string> Payload(const absl::Status& status,
                                   const char* url) {
  const auto payload = status.GetPayload(url);
  if (!payload.has_value()) return std::nullopt;
  return std::string(*payload);
}

}  // namespace

absl::string_view FailureReasonName(FailureReason reason) {
  return Row(reason).name;
}

int FailureExitCode(FailureReason reason) { return Row(reason).exit_code; }

absl::Status FailureError(FailureReason reason, int64_t step,
                          absl::string_view message) {
  return WithReason(absl::Status(Row(reason).code, message), reason, step);
}

absl::Status WithReason(absl::Status status, FailureReason reason,
                        int64_t step) {
  if (status.ok() || Payload(status, kReasonUrl).has_value()) return status;
  status.SetPayload(kReasonUrl, absl::Cord(Row(reason).name));
  status.SetPayload(kStepUrl, absl::Cord(absl::StrCat(step)));
  return status;
}

absl::Status AgreedByAll(absl::Status status) {
  status.SetPayload(kAgreedUrl, absl::Cord("1"));
  return status;
}

bool IsAgreedByAll(const absl::Status& status) {
  return Payload(status, kAgreedUrl).has_value();
}

FailureReason ReasonOf(const absl::Status& status) {
  const std::optional<std::string> name = Payload(status, kReasonUrl);
  for (const ReasonRow& row : kReasons) {
    if (name.has_value() && *name == row.name) return row.reason;
  }
  return absl::IsResourceExhausted(status) ? FailureReason::kOutOfMemory
                                           : FailureReason::kInternal;
}

int64_t StepOf(const absl::Status& status) {
  int64_t step = kNoStep;
  const std::optional<std::string> text = Payload(status, kStepUrl);
  if (!text.has_value() || !absl::SimpleAtoi(*text, &step)) return kNoStep;
  return step;
}

FailureReason ReasonOfEngineError(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kFailedPrecondition:
      return FailureReason::kCollectiveFailed;
    case absl::StatusCode::kResourceExhausted:
      return FailureReason::kOutOfMemory;
    case absl::StatusCode::kDataLoss:
      return FailureReason::kDataError;
    default:
      return FailureReason::kInternal;
  }
}

}  // namespace evenstep::trainer
