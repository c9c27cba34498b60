#include "planner/policies/reference_rules.h"

#include <vector>

#include "base/status_macros.h"
#include "planner/costs/cost_model.h"
#include "planner/costs/fits.h"
#include "planner/evaluate.h"
#include "planner/proof/bounds.h"
#include "planner/validate.h"

namespace evenstep::planner {

std::vector<Placement> PlaceByRule(const PolicyInput& input, ReferenceRule rule,
                                   int64_t& work_left) {
  switch (rule) {
    case ReferenceRule::kDynamicContextParallel:
      return PlaceDynamicContextParallel(input, work_left);
    case ReferenceRule::kKarmarkarKarp:
      return PlaceKarmarkarKarp(input, work_left);
    case ReferenceRule::kBestFitGrowth:
      return PlaceBestFitGrowth(input, work_left);
  }
  return {};
}

absl::Span<const ReferenceRow> ReferenceRules() {
  static constexpr ReferenceRow kRows[] = {
      {ReferenceRule::kDynamicContextParallel, "dynamic-cp"},
      {ReferenceRule::kKarmarkarKarp, "karmarkar-karp"},
      {ReferenceRule::kBestFitGrowth, "best-fit-growth"}};
  return kRows;
}

absl::StatusOr<Plan> MakeReferencePlan(const PlanRequest& request,
                                       ReferenceRule rule) {
  EVENSTEP_RETURN_IF_ERROR(ValidateRequest(request));
  EVENSTEP_RETURN_IF_ERROR(CheckSamplesFit(request));
  if (!request.options.recompute_choices.empty()) {
    return absl::InvalidArgumentError(
        "reference rules choose no recompute: recompute_choices must be empty");
  }
  const CostModel costs(request, request.options.recompute_layers);
  const CostTable table(request, costs);
  const LowerBound bound = ComputeLowerBound(request, costs, table);
  int64_t work_left = INT64_MAX;
  return BuildPlan(
      request, costs, bound,
      PlaceByRule({request, costs, table, bound}, rule, work_left));
}

}  // namespace evenstep::planner
