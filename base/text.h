#ifndef EVENSTEP_BASE_TEXT_H_
#define EVENSTEP_BASE_TEXT_H_

// Text for people and from people. Pure functions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace evenstep {

// Text from outside - file names, job files, command lines, what processes
// write - as the valid UTF-8 that a protobuf string has to be: a message with
// anything else is serialized, but nobody can parse it.

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

// "1 sample", "3 samples"; nouns whose plural takes s, or es after ch.
inline std::string Counted(int64_t count, absl::string_view noun) {
  const char* const plural = absl::EndsWith(noun, "ch") ? "es" : "s";
  return absl::StrCat(count, " ", noun, count == 1 ? "" : plural);
}

// "Did you mean": the tail of an error about a name that nobody knows. Used by
// every reader of names that people type.

// The known name with the least edit distance, or "" when none is near: more
// than two edits, and more than a third of the letters.
std::string NearestName(absl::string_view name,
                        const std::vector<std::string>& known);

// "; did you mean 'x'? known: a, b, x", or without the question.
std::string KnownNamesHint(absl::string_view name,
                           const std::vector<std::string>& known);

}  // namespace evenstep

#endif  // EVENSTEP_BASE_TEXT_H_
