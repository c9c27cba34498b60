#ifndef EVENSTEP_BASE_UTF8_H_
#define EVENSTEP_BASE_UTF8_H_

// Text from outside - file names, job files, command lines, what processes
// write - as the valid UTF-8 that a protobuf string has to be: a message with
// anything else is serialized, but nobody can parse it. Pure functions.

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace evenstep {

// Every byte that is not part of valid UTF-8 becomes '?'.
std::string ToValidUtf8(absl::string_view bytes);

// Where the first byte stands that is not part of valid UTF-8; npos: nowhere.
size_t FirstInvalidUtf8(absl::string_view text);

// INVALID_ARGUMENT with `what` and the first bad byte.
absl::Status CheckUtf8(absl::string_view what, absl::string_view text);

// The longest beginning or end of `text`, valid UTF-8, that has at most
// `max_bytes` and splits no character.
absl::string_view Utf8Prefix(absl::string_view text, size_t max_bytes);
absl::string_view Utf8Suffix(absl::string_view text, size_t max_bytes);

}  // namespace evenstep

#endif  // EVENSTEP_BASE_UTF8_H_
