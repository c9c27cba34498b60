#include "jobspec/rules/rules.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/parse_value.h"
#include "jobspec/rules/rule_parts.h"

namespace evenstep::jobspec {
namespace {

constexpr size_t kMaxNameBytes = 128;
constexpr absl::Duration kMaxTimeout = absl::Hours(24 * 7);

Found KindRule(const JobSpec& spec) {
  if (spec.kind == "train") return std::nullopt;
  return RuleBreak{"kind",
                   absl::StrCat("'", spec.kind, "' is unknown; known: train")};
}

Found OptimizerRules(const OptimizerSpec& optimizer, int64_t steps) {
  if (!(optimizer.lr > 0)) {
    return RuleBreak{"optimizer.lr", absl::StrCat(FormatValue(optimizer.lr),
                                                  " is not above 0")};
  }
  return FirstOf({
      InRange("optimizer.lr", optimizer.lr, 0.0, 1e3),
      InRange<int64_t>("optimizer.warmup", optimizer.warmup, 0, steps),
      InRange("optimizer.weight_decay", optimizer.weight_decay, 0.0, 1e3),
      InRange("optimizer.clip", optimizer.clip, 0.0, 1e9),
  });
}

Found TimeoutRule(absl::string_view key, absl::Duration value) {
  if (value < absl::Milliseconds(1) || value > kMaxTimeout) {
    return RuleBreak{std::string(key),
                     absl::StrCat(FormatValue(value), " is not in 1ms to ",
                                  FormatValue(kMaxTimeout))};
  }
  if (value % absl::Milliseconds(1) != absl::ZeroDuration()) {
    return RuleBreak{std::string(key),
                     absl::StrCat(FormatValue(value),
                                  " is not a whole number of milliseconds")};
  }
  return std::nullopt;
}

Found TimeoutRules(const TimeoutSpec& timeouts) {
  return FirstOf({
      timeouts.collective.has_value()
          ? TimeoutRule("timeouts.collective", *timeouts.collective)
          : std::nullopt,
      TimeoutRule("timeouts.start", timeouts.start),
      TimeoutRule("timeouts.stop", timeouts.stop),
  });
}

absl::Status ToStatus(const Found& found) {
  if (!found.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(found->key, ": ", found->sentence));
}

}  // namespace

std::optional<RuleBreak> FindRuleBreak(const JobSpec& spec) {
  return FirstOf({
      TextRule("name", spec.name, kMaxNameBytes),
      KindRule(spec),
      ModelRules(spec.model),
      DataRules(spec),
      EvaluationRules(spec),
      BatchRules(spec),
      InRange<int64_t>("steps", spec.steps, 1, kMaxSteps),
      OptimizerRules(spec.optimizer, spec.steps),
      RankRules(spec),
      CostRules(spec),
      TimeoutRules(spec.timeouts),
  });
}

absl::Status ValidateModelSpec(const ModelSpec& model) {
  return ToStatus(ModelRules(model));
}

absl::Status ValidateJobSpec(const JobSpec& spec) {
  return ToStatus(FindRuleBreak(spec));
}

}  // namespace evenstep::jobspec
