#include "planner/planner.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "planner/costs/cost_limits.h"
#include "planner/costs/cost_model.h"
#include "planner/costs/degrees.h"
#include "planner/costs/fits.h"
#include "planner/evaluate.h"
#include "planner/policies.h"
#include "planner/proof/bounds.h"
#include "planner/validate.h"

namespace evenstep::planner {
namespace {

absl::StatusOr<PolicyRow> FindPolicy(Policy policy) {
  for (const PolicyRow& row : Policies()) {
    if (row.policy == policy) return row;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown policy number ", static_cast<int>(policy)));
}

// `even` keeps within the limit by itself; rules that know none may not.
absl::Status CheckGroups(const PlanRequest& request,
                         const std::vector<Placement>& placements) {
  const int limit = request.options.max_groups_per_rank;
  if (limit == 0) return absl::OkStatus();
  const int most = MostGroupsPerRank(request, placements);
  if (most <= limit) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the policy needs ", most, " groups for some rank, above ", limit,
      " (options.max_groups_per_rank); even keeps within any limit of 1 or "
      "more"));
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const PlanRequest& request) {
  EVENSTEP_RETURN_IF_ERROR(ValidateRequest(request));
  EVENSTEP_ASSIGN_OR_RETURN(PolicyRow row, FindPolicy(request.options.policy));
  EVENSTEP_RETURN_IF_ERROR(CheckSamplesFit(request));
  const CostModel costs(request, request.options.recompute_layers);
  const CostTable table(request, costs);
  const LowerBound bound = ComputeLowerBound(request, costs, table);
  EVENSTEP_ASSIGN_OR_RETURN(std::vector<Placement> placements,
                            row.place({request, costs, table, bound}));
  EVENSTEP_RETURN_IF_ERROR(CheckGroups(request, placements));
  return BuildPlan(request, costs, bound, std::move(placements));
}

absl::Status CheckFits(int64_t max_length, PlanRequest request) {
  request.samples = {{0, max_length, max_length}};
  if (IsFree(request.time, request.model)) {  // what fits does not depend on it
    request.time.micro_batch_fixed_ns = 1;
  }
  EVENSTEP_RETURN_IF_ERROR(ValidateRequest(request));
  return CheckLongestFits(request);
}

absl::string_view PolicyName(Policy policy) {
  for (const PolicyRow& row : Policies()) {
    if (row.policy == policy) return row.name;
  }
  return "unknown";
}

std::vector<std::string> PolicyNames() {
  std::vector<std::string> names;
  for (const PolicyRow& row : Policies()) {
    names.emplace_back(row.name.data(), row.name.size());
  }
  return names;
}

absl::StatusOr<Policy> ParsePolicy(absl::string_view name) {
  for (const PolicyRow& row : Policies()) {
    if (row.name == name) return row.policy;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown policy '", name, "'; the policies are ",
                   absl::StrJoin(PolicyNames(), ", ")));
}

}  // namespace evenstep::planner
