#ifndef EVENSTEP_BASE_STRICT_JSON_H_
#define EVENSTEP_BASE_STRICT_JSON_H_

// JSON that others wrote, parsed strictly: the one place that calls nlohmann's
// parser for it and catches its exceptions. It refuses what the library passes
// over: a NUL byte (the library takes it for the end of the text and drops what
// follows), a key that an object has twice (the library keeps the last value),
// and nesting that would take the stack of whoever prints the value. Pure
// function. Include nlohmann/json.hpp to use the result.

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace evenstep {

// Objects and arrays within each other.
inline constexpr int kMaxJsonDepth = 64;

// INVALID_ARGUMENT with the line, the column and the cause; the sentence names
// no file.
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text);

}  // namespace evenstep

#endif  // EVENSTEP_BASE_STRICT_JSON_H_
