#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "jobspec/profile.h"
#include "jobspec/rules/rule_parts.h"
#include "planner/costs/cost_limits.h"
#include "planner/validate.h"

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

Found DegreeRules(
    const char* key,
    const std::vector<planner::TimeModel::CollectiveCost>& costs) {
  int previous = 0;
  for (const auto& entry : costs) {
    if (entry.degree <= previous || entry.degree > planner::kMaxRanks) {
      return RuleBreak{
          key, absl::StrCat("degree ", entry.degree, " after ", previous,
                            "; degrees ascend from 1 to ", planner::kMaxRanks)};
    }
    previous = entry.degree;
  }
  return std::nullopt;
}

// "spatial.linear_ns_per_token" is spatial_linear_ns_per_token of a job, and
// "gather of degree 2" is gather.
std::string KeyOf(const std::string& cost) {
  return absl::StrReplaceAll(cost.substr(0, cost.find(' ')), {{".", "_"}});
}

}  // namespace

std::optional<RuleBreak> FindCostRuleBreak(const planner::TimeModel& costs) {
  Found found = FirstOf({DegreeRules("collective", costs.collective),
                         DegreeRules("gather", costs.gather)});
  if (found.has_value()) return found;
  planner::VisitCosts(
      costs, [&found](const auto& name, auto cost, auto highest) {
        if (found.has_value()) return;
        found = InRange<decltype(cost)>(KeyOf(name), cost, 0, highest);
      });
  return found;
}

Found CostRules(const JobSpec& spec) {
  if (!spec.costs.has_value()) return ProfileRules(spec);
  Found found = FindCostRuleBreak(*spec.costs);
  const bool of_video = spec.costs->spatial != planner::LayerTime() ||
                        spec.costs->temporal != planner::LayerTime();
  if (!found.has_value() && of_video != spec.model.is_video()) {
    found = RuleBreak{
        "spatial_linear_ns_per_token",
        absl::StrCat("the costs are of a ", of_video ? "video" : "text",
                     " model, the job's is ", ModelKindName(spec.model.kind))};
  }
  if (!found.has_value()) return ProfileRules(spec);
  found->key = "costs." + found->key;
  return found;
}

}  // namespace evenstep::jobspec
