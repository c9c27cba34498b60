#ifndef EVENSTEP_JOBSPEC_FIELDS_H_
#define EVENSTEP_JOBSPEC_FIELDS_H_

// The keys of a profile in one table: parsing and writing go through it, so
// they cannot drift apart. Used inside jobspec only. A field points into the
// struct it was made for.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/parse_value.h"
#include "jobspec/job_spec.h"

namespace evenstep::jobspec {

struct Field {
  std::string key;
  std::function<absl::Status(absl::string_view)> parse;
  // Absent: nothing to write.
  std::function<std::optional<std::string>()> format;
};

// A key whose text is a plain value (base/parse_value.h).
template <typename T>
Field ValueField(std::string key, T* target) {
  return {std::move(key),
          [target](absl::string_view text) { return ParseValue(text, target); },
          [target] { return FormatValue(*target); }};
}

// Null when there is none.
const Field* FindField(const std::vector<Field>& fields, absl::string_view key);

// The status with "WHERE: " in front, as INVALID_ARGUMENT.
absl::Status At(absl::string_view where, const absl::Status& status);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_FIELDS_H_
