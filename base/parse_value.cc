#include "base/parse_value.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace evenstep {
namespace {

absl::Status Not(absl::string_view text, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not ", what));
}

// absl's number parsers skip white space; settings do not.
bool HasSpace(absl::string_view text) {
  return text.find_first_of(" \t\n\r\v\f") != absl::string_view::npos;
}

template <typename Int>
absl::Status ParseInteger(absl::string_view text, absl::string_view what,
                          Int* value) {
  Int parsed = 0;
  if (HasSpace(text) || !absl::SimpleAtoi(text, &parsed)) {
    return Not(text, what);
  }
  *value = parsed;
  return absl::OkStatus();
}

}  // namespace

absl::Status ParseValue(absl::string_view text, std::string* value) {
  *value = std::string(text);
  return absl::OkStatus();
}

absl::Status ParseValue(absl::string_view text, int* value) {
  return ParseInteger(text, "a whole number of 32 bits", value);
}

absl::Status ParseValue(absl::string_view text, int64_t* value) {
  return ParseInteger(text, "a whole number of 64 bits", value);
}

absl::Status ParseValue(absl::string_view text, uint64_t* value) {
  return ParseInteger(text, "a whole number from 0 to 2^64 - 1", value);
}

absl::Status ParseValue(absl::string_view text, double* value) {
  double parsed = 0;
  if (HasSpace(text) || !absl::SimpleAtod(text, &parsed) ||
      !std::isfinite(parsed)) {
    return Not(text, "a number");
  }
  *value = parsed;
  return absl::OkStatus();
}

absl::Status ParseValue(absl::string_view text, bool* value) {
  if (text != "true" && text != "false") return Not(text, "true or false");
  *value = text == "true";
  return absl::OkStatus();
}

absl::Status ParseValue(absl::string_view text, absl::Duration* value) {
  absl::Duration parsed;
  if (HasSpace(text) || !absl::ParseDuration(text, &parsed) ||
      parsed < absl::ZeroDuration() || parsed == absl::InfiniteDuration()) {
    return Not(text, "a duration such as 250ms, 60s or 1m30s");
  }
  *value = parsed;
  return absl::OkStatus();
}

std::string FormatValue(const std::string& value) { return value; }
std::string FormatValue(int value) { return absl::StrCat(value); }
std::string FormatValue(int64_t value) { return absl::StrCat(value); }
std::string FormatValue(uint64_t value) { return absl::StrCat(value); }

std::string FormatValue(double value) {
  char text[40];
  // Counts as people write them: 10, not 1e+01.
  constexpr double kMostPlain = 1e6;
  if (value == std::trunc(value) && std::fabs(value) < kMostPlain) {
    std::snprintf(text, sizeof(text), "%.0f", value);
    return text;
  }
  // The shortest text that reads back to the same number.
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof(text), "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

std::string FormatValue(bool value) { return value ? "true" : "false"; }

std::string FormatValue(absl::Duration value) {
  return absl::FormatDuration(value);
}

}  // namespace evenstep
