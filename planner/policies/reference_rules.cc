#include "planner/policies/reference_rules.h"

#include <algorithm>
#include <utility>
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

namespace {

bool IsPowerOfTwo(int number) { return (number & (number - 1)) == 0; }

}  // namespace

std::vector<int> PowerOfTwoLevels(const CostTable& table) {
  std::vector<int> levels;
  for (int level = 0; level < table.num_degrees(); ++level) {
    if (IsPowerOfTwo(table.degree(level)) || level == table.num_degrees() - 1) {
      levels.push_back(level);
    }
  }
  return levels;
}

int SmallestLevel(const CostTable& table, const std::vector<int>& levels,
                  int item) {
  for (int level : levels) {
    if (table.Allows(level, item)) return level;
  }
  return table.first_level(item);
}

int SmallestLevelForAll(const CostTable& table) {
  for (int level : PowerOfTwoLevels(table)) {
    int num_allowed = 0;
    while (num_allowed < table.num_samples() &&
           table.Allows(level, num_allowed)) {
      ++num_allowed;
    }
    if (num_allowed == table.num_samples()) return level;
  }
  return -1;
}

bool CanSetLevel(const CostTable& table, int level, const RoundGroup& group) {
  int64_t tokens = 0;
  for (int item : group.items) {
    if (!table.Allows(level, item)) return false;
    tokens += table.tokens(level, item);
  }
  return tokens <= table.capacity_tokens(level);
}

void SetLevel(const CostTable& table, int level, RoundGroup& group) {
  RoundGroup moved;
  moved.level = level;
  for (int item : group.items) AddItem(table, item, moved);
  group = std::move(moved);
}

}  // namespace evenstep::planner
