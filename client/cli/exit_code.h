#ifndef EVENSTEP_CLIENT_CLI_EXIT_CODE_H_
#define EVENSTEP_CLIENT_CLI_EXIT_CODE_H_

// The exit codes of `evenstep`: a contract with scripts. Pure functions.

#include "absl/status/status.h"
#include "evenstep/job.h"

namespace evenstep::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitJobFailed = 1,     // the job ended, but did not succeed
  kExitUsage = 2,         // wrong command line or job file
  kExitUnreachable = 3,   // no coordinator answers, or none that knows the call
  kExitNotFound = 4,      // no such job
  kExitRefused = 5,       // permission, quota, infeasible, id taken
  kExitOtherError = 6,    // the service's own error; stdout cannot be written
  kExitTimedOut = 124,    // `wait --timeout`
  kExitInterrupted = 130  // Ctrl-C
};

ExitCode ExitCodeOf(const absl::Status& status);
// Of a job that has ended.
ExitCode ExitCodeOf(client::JobState state);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_EXIT_CODE_H_
