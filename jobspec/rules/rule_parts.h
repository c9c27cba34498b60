#ifndef EVENSTEP_JOBSPEC_RULES_RULE_PARTS_H_
#define EVENSTEP_JOBSPEC_RULES_RULE_PARTS_H_

// What the rules of a job are made of, whatever they are about: ranges, texts,
// and the first that is broken. Used by the *_rules.cc of this folder. Pure
// functions.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/parse_value.h"
#include "jobspec/rules/rules.h"

namespace evenstep::jobspec {

// Absent: the rule is kept.
using Found = std::optional<RuleBreak>;

// Of paths and sources.
inline constexpr size_t kMaxSourceBytes = 4096;
inline constexpr int64_t kMaxSteps = 1'000'000'000;

template <typename Number>
Found InRange(absl::string_view key, Number value, Number least, Number most) {
  if (value >= least && value <= most) return std::nullopt;  // false for NaN
  return RuleBreak{std::string(key),
                   absl::StrCat(FormatValue(value), " is not in ",
                                FormatValue(least), " to ", FormatValue(most))};
}

Found FirstOf(std::initializer_list<Found> found);

// Required, at most so many bytes, UTF-8, without control characters.
Found TextRule(absl::string_view key, absl::string_view text, size_t most);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_RULES_RULE_PARTS_H_
