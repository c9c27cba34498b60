#ifndef EVENSTEP_CLIENT_CLI_OUTPUT_FILE_H_
#define EVENSTEP_CLIENT_CLI_OUTPUT_FILE_H_

// Files that a user names for output, such as --report and --out. Touches the
// disk; stateless.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace evenstep::cli {

// Before anything is computed. INVALID_ARGUMENT, with the flag and the path: no
// such folder, not a regular file, not writable, or a file that is not empty
// and that no earlier run wrote (base/output_marker.h). An empty path is OK.
absl::Status CheckOutputFile(absl::string_view flag, const std::string& path);

// The last of these checks alone.
absl::Status CheckReplaces(absl::string_view flag, const std::string& path);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_OUTPUT_FILE_H_
