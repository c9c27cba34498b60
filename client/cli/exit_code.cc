#include "client/cli/exit_code.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace evenstep::cli {
namespace {

constexpr size_t kHelpColumns = 80;

constexpr ExitCodeMeaning kTable[] = {
    {kExitOk, "ok"},
    {kExitJobFailed, "the job failed or was cancelled"},
    {kExitUsage, "wrong usage or job file, or a file that is not there"},
    {kExitUnreachable, "no coordinator answers"},
    {kExitNotFound, "no such job"},
    {kExitRefused,
     "refused (permission, quota, an id that is taken; a job without a plan; "
     "data or weights that cannot be used)"},
    {kExitOtherError,
     "another error (the service's own, a full disk, or stdout cannot be "
     "written)"},
    {kExitTimedOut, "wait timed out"},
    {kExitInterrupted, "interrupted"}};

// Breaks lines at spaces.
std::string Wrapped(const std::string& text) {
  std::string wrapped;
  size_t column = 0;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (column > 0 && column + 1 + word.size() > kHelpColumns) {
      wrapped += '\n';
      column = 0;
    }
    absl::StrAppend(&wrapped, column > 0 ? " " : "", word);
    column += word.size() + (column > 0 ? 1 : 0);
  }
  return wrapped;
}

}  // namespace

absl::Span<const ExitCodeMeaning> ExitCodeTable() { return kTable; }

std::string ExitCodeHelp() {
  std::string text = "Exit codes:";
  for (const auto& [code, meaning] : kTable) {
    absl::StrAppend(&text, code == kExitOk ? " " : ", ", static_cast<int>(code),
                    " ", meaning);
  }
  return Wrapped(text + ".");
}

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

ExitCode LocalExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return kExitUsage;
    case absl::StatusCode::kDataLoss:
      return kExitRefused;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kResourceExhausted:  // a full disk
      return kExitOtherError;
    default:
      return ExitCodeOf(status);
  }
}

ExitCode ExitCodeOf(const client::Job& job) {
  if (job.state == client::JobState::kSucceeded) return kExitOk;
  return job.reason == "STORAGE_FULL" ? kExitOtherError : kExitJobFailed;
}

}  // namespace evenstep::cli
