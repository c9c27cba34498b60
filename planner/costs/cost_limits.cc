#include "planner/costs/cost_limits.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/parse_value.h"
#include "planner/costs/cost_fields.h"

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

std::optional<CostBreak> FindDegreeBreak(const char* key,
                                         const CollectiveCosts& costs) {
  int previous = 0;
  for (const auto& entry : costs) {
    if (entry.degree <= previous || entry.degree > kMaxRanks) {
      return CostBreak{
          key, absl::StrCat("degree ", entry.degree, " after ", previous,
                            "; degrees ascend from 1 to ", kMaxRanks)};
    }
    previous = entry.degree;
  }
  return std::nullopt;
}

// "gather at degree 2" is an entry of gather.
CostBreak OutOfRange(const std::string& name, const std::string& sentence) {
  const size_t key = name.find(' ');
  if (key == std::string::npos) return {name, sentence};
  return {name.substr(0, key),
          absl::StrCat(name.substr(key + 1), ": ", sentence)};
}

}  // namespace

std::optional<CostBreak> FindCostBreak(const TimeModel& time) {
  std::optional<CostBreak> found;
  ForEachCostList(time, [&](const char* key, const CollectiveCosts& costs) {
    if (!found.has_value()) found = FindDegreeBreak(key, costs);
  });
  ForEachCost(time, [&found](const CostKey& key, auto cost) {
    const auto highest = static_cast<decltype(cost)>(key.highest);
    // False for what is not a number.
    if (found.has_value() || (cost >= 0 && cost <= highest)) return;
    found =
        OutOfRange(key.name, absl::StrCat(FormatValue(cost), " is not in 0 to ",
                                          FormatValue(highest)));
  });
  return found;
}

absl::Status ValidateTime(const TimeModel& time) {
  const std::optional<CostBreak> found = FindCostBreak(time);
  if (!found.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("time.", found->key, ": ", found->sentence));
}

bool IsFree(TimeModel time, const ModelShape& model) {
  time.step_fixed_ns = 0;
  if (model.is_video()) {
    time.linear_ns_per_token = time.quadratic_ns_per_token2 = 0;
    time.attention_ns_per_token = time.sharded_attention_ns_per_token = 0;
  } else {
    time.spatial = time.temporal = {};
  }
  bool is_free = true;
  ForEachCost(time, [&is_free](const CostKey&, const auto& cost) {
    is_free = is_free && cost == 0;
  });
  return is_free;
}

TimeModel HighestCosts(TimeModel time) {
  ForEachCost(time, [](const CostKey& key, auto& cost) {
    cost = static_cast<std::decay_t<decltype(cost)>>(key.highest);
  });
  return time;
}

TimeModel WithinLimits(TimeModel time) {
  ForEachCost(time, [](const CostKey& key, auto& cost) {
    using Cost = std::decay_t<decltype(cost)>;
    cost = std::clamp<Cost>(cost, 0, static_cast<Cost>(key.highest));
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
  const LayerCounts layers = model.layers();
  LayerTimes times;
  for (int kind = 0; kind < model.num_kinds(); ++kind) {
    times[kind] = {linear * layers[kind], quadratic * layers[kind]};
  }
  TimeModel time;
  time.set_layers(model.is_video(), times);
  return WithinLimits(time);
}

TimeModel PlannableCosts(const TimeModel& measured, const ModelShape& model) {
  TimeModel costs = WithinLimits(measured);
  const bool usable = ValidateTime(costs).ok() && !IsFree(costs, model);
  return usable ? costs : NominalCosts(model);
}

}  // namespace evenstep::planner
