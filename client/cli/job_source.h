#ifndef EVENSTEP_CLIENT_CLI_JOB_SOURCE_H_
#define EVENSTEP_CLIENT_CLI_JOB_SOURCE_H_

// Where a job's text comes from: a file or a preset. Reads one file.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "evenstep/client.h"

namespace evenstep::cli {

// Text, name for messages and base folder of a job. Exactly one of `file` and
// `preset` is not empty. INVALID_ARGUMENT with a sentence otherwise, and for a
// file that cannot be read.
absl::StatusOr<client::SubmitOptions> ReadJob(const std::string& file,
                                              const std::string& preset);

// A preset knows no data of the user's: `overrides` must name some.
absl::Status CheckPresetData(const std::string& preset,
                             const std::vector<std::string>& overrides);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_JOB_SOURCE_H_
