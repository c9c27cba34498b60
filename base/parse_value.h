#ifndef EVENSTEP_BASE_PARSE_VALUE_H_
#define EVENSTEP_BASE_PARSE_VALUE_H_

// Values of settings as text, both ways: what people write in flags,
// environment variables, YAML files and `--set` pairs. Strict: the whole text
// must be the value. ParseValue gives INVALID_ARGUMENT with a sentence that
// quotes the text, and leaves *value alone on errors. FormatValue writes what
// ParseValue reads back to an equal value. Pure functions.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace evenstep {

absl::Status ParseValue(absl::string_view text, std::string* value);
absl::Status ParseValue(absl::string_view text, int* value);
absl::Status ParseValue(absl::string_view text, int64_t* value);
absl::Status ParseValue(absl::string_view text, uint64_t* value);
// Finite numbers only.
absl::Status ParseValue(absl::string_view text, double* value);
// true or false.
absl::Status ParseValue(absl::string_view text, bool* value);
// A number with a unit, such as 250ms, 60s, 1m30s, 2h. Finite, not negative.
absl::Status ParseValue(absl::string_view text, absl::Duration* value);

std::string FormatValue(const std::string& value);
std::string FormatValue(int value);
std::string FormatValue(int64_t value);
std::string FormatValue(uint64_t value);
std::string FormatValue(double value);
std::string FormatValue(bool value);
std::string FormatValue(absl::Duration value);

}  // namespace evenstep

#endif  // EVENSTEP_BASE_PARSE_VALUE_H_
