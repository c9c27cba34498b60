#ifndef EVENSTEP_BASE_NEAREST_NAME_H_
#define EVENSTEP_BASE_NEAREST_NAME_H_

// "Did you mean": the tail of an error about a name that nobody knows. Used by
// every reader of names that people type. Pure functions.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace evenstep {

// The known name with the least edit distance, or "" when none is near: more
// than two edits, and more than a third of the letters.
std::string NearestName(absl::string_view name,
                        const std::vector<std::string>& known);

// "; did you mean 'x'? known: a, b, x", or without the question.
std::string KnownNamesHint(absl::string_view name,
                           const std::vector<std::string>& known);

}  // namespace evenstep

#endif  // EVENSTEP_BASE_NEAREST_NAME_H_
