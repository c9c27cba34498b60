#ifndef EVENSTEP_DATA_TEXT_JSON_PARSER_H_
#define EVENSTEP_DATA_TEXT_JSON_PARSER_H_

// One JSON record, parsed strictly, and for each way to be wrong a sentence
// that says what is wrong, at which byte, and what to do. Bytes count from 1.
// Pure functions; used by jsonl.h.

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace evenstep::data {

// Objects and lists within each other.
inline constexpr int kMaxRecordDepth = 64;

// INVALID_ARGUMENT: not one JSON object, an object with a key twice, or one
// that is nested too deeply.
absl::StatusOr<nlohmann::json> ParseJsonRecord(absl::string_view text);

// "a list", "a number", "null" and so on.
std::string KindOf(const nlohmann::json& value);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TEXT_JSON_PARSER_H_
