#include "jobspec/rules/cost_rules.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "jobspec/profile.h"
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

Found CollectiveRules(
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
    Found range =
        InRange(key, entry.ns_per_token, 0.0, planner::kMaxLinearNsPerToken);
    if (range.has_value()) return range;
  }
  return std::nullopt;
}

}  // namespace

std::optional<RuleBreak> FindCostRuleBreak(const planner::TimeModel& costs) {
  const int64_t most = planner::kMaxFixedNs;
  Found ranges = FirstOf({
      InRange<int64_t>("micro_batch_fixed_ns", costs.micro_batch_fixed_ns, 0,
                       most),
      InRange("linear_ns_per_token", costs.linear_ns_per_token, 0.0,
              planner::kMaxLinearNsPerToken),
      InRange("quadratic_ns_per_token2", costs.quadratic_ns_per_token2, 0.0,
              planner::kMaxQuadraticNsPerToken2),
      InRange<int64_t>("collective_latency_ns", costs.collective_latency_ns, 0,
                       most),
      InRange<int64_t>("step_fixed_ns", costs.step_fixed_ns, 0, most),
      InRange("head_ns_per_token", costs.head_ns_per_token, 0.0,
              planner::kMaxLinearNsPerToken),
      InRange("spatial_linear_ns_per_token", costs.spatial.linear_ns_per_token,
              0.0, planner::kMaxLinearNsPerToken),
      InRange("spatial_quadratic_ns_per_token2",
              costs.spatial.quadratic_ns_per_token2, 0.0,
              planner::kMaxQuadraticNsPerToken2),
      InRange("temporal_linear_ns_per_token",
              costs.temporal.linear_ns_per_token, 0.0,
              planner::kMaxLinearNsPerToken),
      InRange("temporal_quadratic_ns_per_token2",
              costs.temporal.quadratic_ns_per_token2, 0.0,
              planner::kMaxQuadraticNsPerToken2),
  });
  if (ranges.has_value()) return ranges;
  return FirstOf({CollectiveRules("collective", costs.collective),
                  CollectiveRules("gather", costs.gather)});
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
