#ifndef EVENSTEP_JOBSPEC_PRESETS_H_
#define EVENSTEP_JOBSPEC_PRESETS_H_

// Job files that come with the program, for `--preset NAME`. Each is complete
// and runs on CPUs; overrides change what differs. Constant.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace evenstep::jobspec {

std::vector<std::string> PresetNames();
// The job file's text. NOT_FOUND naming the known presets.
absl::StatusOr<std::string> PresetJobFile(absl::string_view name);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_PRESETS_H_
