#include "planner/models/published_costs.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "planner/models/cost_file.h"

namespace evenstep::planner {

std::vector<std::string> PublishedCostNames() {
  std::vector<std::string> names;
  for (const BuiltinModel& model : BuiltinModels()) {
    names.emplace_back(model.name);
  }
  return names;
}

absl::StatusOr<PublishedCosts> FindPublishedCosts(absl::string_view name) {
  for (const BuiltinModel& model : BuiltinModels()) {
    if (name == model.name) return ParseCosts(model.yaml, model.name);
  }
  return absl::NotFoundError(
      absl::StrCat("no published costs are named '", name,
                   "'; known: ", absl::StrJoin(PublishedCostNames(), ", ")));
}

}  // namespace evenstep::planner
