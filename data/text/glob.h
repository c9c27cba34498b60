#ifndef EVENSTEP_DATA_TEXT_GLOB_H_
#define EVENSTEP_DATA_TEXT_GLOB_H_

// One part of a file pattern, without a '/': `*`, `?` and sets such as `[a-z]`
// or `[!ab]`, by bytes as POSIX has them but without classes. Pure functions;
// used by file_list.h.

#include "absl/strings/string_view.h"

namespace evenstep::data {

// Whether a path holds any of the above.
bool IsPattern(absl::string_view text);

// Whether `name` matches one part of a pattern, which has no '/'.
bool MatchesPart(absl::string_view pattern, absl::string_view name);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TEXT_GLOB_H_
