#include "planner/costs/cost_limits.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/status_macros.h"

namespace evenstep::planner {
namespace {

// Forward and backward, a token, of a layer of this width: four square
// matrices of attention and eight of the feed-forward part, three times.
constexpr double kMatricesPerLayer = 12;
constexpr double kPasses = 3;
// A pair of tokens costs two products of the width.
constexpr double kProductsPerPair = 2;
constexpr double kNsPerMultiplication = 1e-4;

using CollectiveCosts = std::vector<TimeModel::CollectiveCost>;

// The costs of the entries are checked by ValidateTime.
absl::Status ValidateDegrees(const std::string& field,
                             const CollectiveCosts& costs) {
  EVENSTEP_RETURN_IF_ERROR(InRange<int64_t>(absl::StrCat("entries of ", field),
                                            costs.size(), 0, kMaxRanks));
  int last_degree = 0;
  for (const auto& entry : costs) {
    if (entry.degree <= last_degree) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, " lists degree ", entry.degree, " after ",
                       last_degree, "; degrees must ascend from 1"));
    }
    last_degree = entry.degree;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateTime(const TimeModel& time) {
  const std::pair<const char*, const CollectiveCosts*> lists[] = {
      {"time.collective", &time.collective},
      {"time.collective_across", &time.collective_across},
      {"time.gather", &time.gather},
      {"time.gather_across", &time.gather_across}};
  for (const auto& [name, costs] : lists) {
    EVENSTEP_RETURN_IF_ERROR(ValidateDegrees(name, *costs));
  }
  absl::Status status;
  VisitCosts(time, [&status](const auto& name, auto cost, auto highest) {
    status.Update(
        InRange<decltype(cost)>(absl::StrCat("time.", name), cost, 0, highest));
  });
  return status;
}

TimeModel HighestCosts(TimeModel time) {
  VisitCosts(time, [](const auto&, auto& cost, auto highest) {
    cost = static_cast<std::decay_t<decltype(cost)>>(highest);
  });
  return time;
}

TimeModel WithinLimits(TimeModel time) {
  VisitCosts(time, [](const auto&, auto& cost, auto highest) {
    using Cost = std::decay_t<decltype(cost)>;
    cost = std::clamp<Cost>(cost, 0, static_cast<Cost>(highest));
  });
  return time;
}

int64_t FixedCostNs(double ns) {
  if (!(ns > 0)) return 0;
  return std::llround(std::min(ns, static_cast<double>(kMaxFixedNs)));
}

TimeModel NominalCosts(const ModelShape& model) {
  const double width = std::max(1, model.width);
  const double linear =
      kNsPerMultiplication * kPasses * kMatricesPerLayer * width * width;
  const double quadratic =
      kNsPerMultiplication * kPasses * kProductsPerPair * width;
  TimeModel time;
  if (model.is_video()) {
    time.spatial = {linear * model.spatial_layers,
                    quadratic * model.spatial_layers};
    time.temporal = {linear * model.temporal_layers,
                     quadratic * model.temporal_layers};
  } else {
    time.linear_ns_per_token = linear * model.num_layers;
    time.quadratic_ns_per_token2 = quadratic * model.num_layers;
  }
  return WithinLimits(time);
}

TimeModel PlannableCosts(const TimeModel& measured, const ModelShape& model) {
  TimeModel costs = WithinLimits(measured);
  return ValidateTime(costs).ok() ? costs : NominalCosts(model);
}

}  // namespace evenstep::planner
