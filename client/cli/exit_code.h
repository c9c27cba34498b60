#ifndef EVENSTEP_CLIENT_CLI_EXIT_CODE_H_
#define EVENSTEP_CLIENT_CLI_EXIT_CODE_H_

// The exit codes of `evenstep`: a contract with scripts. One table has them
// all; `--help` shows it, and every command ends with a code of it. Pure
// functions.

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "evenstep/job.h"

namespace evenstep::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitJobFailed = 1,
  kExitUsage = 2,
  kExitUnreachable = 3,
  kExitNotFound = 4,
  kExitRefused = 5,
  kExitOtherError = 6,
  kExitTimedOut = 124,
  kExitInterrupted = 130
};

struct ExitCodeMeaning {
  ExitCode code;
  const char* meaning;
};

// Every code once, in order.
absl::Span<const ExitCodeMeaning> ExitCodeTable();
// The table as a paragraph of `--help`, 80 columns wide.
std::string ExitCodeHelp();

// What the service answered, or why it did not.
ExitCode ExitCodeOf(const absl::Status& status);
// What went wrong on this machine, with its files: no job is missing, and no
// coordinator was asked.
ExitCode LocalExitCodeOf(const absl::Status& status);
// For a job that has ended. A full disk is not the job's own failure.
ExitCode ExitCodeOf(const client::Job& job);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_EXIT_CODE_H_
