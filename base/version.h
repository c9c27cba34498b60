#ifndef EVENSTEP_BASE_VERSION_H_
#define EVENSTEP_BASE_VERSION_H_

// What this binary was built from. Set when CMake configures. Constant.

#include "absl/strings/string_view.h"

namespace evenstep {

absl::string_view Version();    // "0.1.0"
absl::string_view GitCommit();  // `git describe`; "unknown" outside git

}  // namespace evenstep

#endif  // EVENSTEP_BASE_VERSION_H_
