#ifndef EVENSTEP_JOBSPEC_RULES_RULE_PARTS_H_
#define EVENSTEP_JOBSPEC_RULES_RULE_PARTS_H_

// What the rules of a job are made of: ranges, texts, the first that is broken,
// and the rules of each topic. Used inside this folder. Pure functions.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/parse_value.h"
#include "jobspec/job_spec.h"
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

// The rules by topic, each in a file of its own.

// Sizes, heads, and what is of one kind of model alone.
Found ModelRules(const ModelSpec& model);
// What a job is trained and evaluated on.
Found DataRules(const JobSpec& spec);
Found EvaluationRules(const JobSpec& spec);
// What bounds a job's plans: the batch, ranks and their groups, memory and
// recompute.
Found BatchRules(const JobSpec& spec);
Found RankRules(const JobSpec& spec);
// Costs, and the profile that they are from.
Found CostRules(const JobSpec& spec);

// Bytes of the message that carries the plan of one step
// (proto/evenstep/v1/plan.proto), whatever the plan is.
int64_t MostPlanBytes(const JobSpec& spec);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_RULES_RULE_PARTS_H_
