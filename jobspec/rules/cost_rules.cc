#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jobspec/job_keys.h"
#include "jobspec/profile.h"
#include "jobspec/rules/rule_parts.h"
#include "planner/costs/cost_limits.h"

namespace evenstep::jobspec {
namespace {

constexpr size_t kMaxKeyBytes = 1024;  // of one part of a profile's key

Found ProfileRules(const JobSpec& spec) {
  if (spec.profile.empty()) return std::nullopt;
  for (const auto& [key, text] :
       {std::pair("profile.model", &spec.profile.model),
        {"profile.device", &spec.profile.device},
        {"profile.software", &spec.profile.software},
        {"profile.precision", &spec.profile.precision}}) {
    Found found = TextRule(key, *text, kMaxKeyBytes);
    if (found.has_value()) return found;
  }
  if (!spec.costs.has_value()) {
    return RuleBreak{"profile.model", "there are no costs that it could be of"};
  }
  // The rest of the key is known where the job runs.
  ProfileKey own = spec.profile;
  own.model = ModelKey(spec.model);
  own.precision = PrecisionKey(spec);
  const absl::Status same = CheckProfileKey(spec.profile, own);
  if (same.ok()) return std::nullopt;
  return RuleBreak{"profile.model", std::string(same.message())};
}

}  // namespace

Found CostRules(const JobSpec& spec) {
  if (!spec.costs.has_value()) return ProfileRules(spec);
  if (const auto found = planner::FindCostBreak(*spec.costs)) {
    return RuleBreak{absl::StrCat("costs.", found->key), found->sentence};
  }
  const bool of_video = spec.costs->is_video();
  if (of_video == spec.model.is_video()) {
    if (planner::IsFree(*spec.costs, ToModelShape(spec.model))) {
      return RuleBreak{"costs",
                       "every cost of a micro-batch is 0, so no plan is better "
                       "than another; leave `costs` out to have them measured"};
    }
    return ProfileRules(spec);
  }
  return RuleBreak{
      "costs", absl::StrCat("the costs are of a ", of_video ? "video" : "text",
                            " model, the job's is ",
                            WordOf("model.kind", spec.model.kind))};
}

}  // namespace evenstep::jobspec
