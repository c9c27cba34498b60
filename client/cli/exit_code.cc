#include "client/cli/exit_code.h"

namespace evenstep::cli {

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kUnimplemented:
      return kExitUnreachable;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAlreadyExists:
      return kExitRefused;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitOtherError;
  }
}

ExitCode ExitCodeOf(client::JobState state) {
  return state == client::JobState::kSucceeded ? kExitOk : kExitJobFailed;
}

}  // namespace evenstep::cli
