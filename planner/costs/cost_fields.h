#ifndef EVENSTEP_PLANNER_COSTS_COST_FIELDS_H_
#define EVENSTEP_PLANNER_COSTS_COST_FIELDS_H_

// The table of all costs of a TimeModel: the name of each in files and
// messages, its highest legal value (the lowest is 0), and who must give it.
// Cost files, jobs, messages, JSON, rules and fits go through this table, so a
// cost is named here once. `Time` is TimeModel, or another struct with fields
// of the same names, such as the SDK's Costs; it may be const. Costs are
// int64_t (nanoseconds) or double. Stateless.

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "planner/limits.h"
#include "planner/model.h"

namespace evenstep::planner {

enum class CostUse {
  kRequired,
  kRequiredOfText,  // video models have costs by kind of layer instead
  kRequiredOfJobs,  // `evenstep plan` may compare policies without it
  kOptional,
  kRare,  // optional, and not written where it is 0
};

struct CostKey {
  std::string name;
  double highest;
  CostUse use;
};

template <typename Layers, typename Visit>
void ForEachLayerCost(Layers& layers, CostUse use, const Visit& visit) {
  visit(CostKey{"linear_ns_per_token", kMaxLinearNsPerToken, use},
        layers.linear_ns_per_token);
  visit(CostKey{"quadratic_ns_per_token2", kMaxQuadraticNsPerToken2, use},
        layers.quadratic_ns_per_token2);
  // Attention is a part of the linear cost.
  visit(CostKey{"attention_ns_per_token", layers.linear_ns_per_token,
                CostUse::kRare},
        layers.attention_ns_per_token);
  visit(CostKey{"sharded_attention_ns_per_token", kMaxLinearNsPerToken,
                CostUse::kRare},
        layers.sharded_attention_ns_per_token);
}

// The numbers of TimeModel itself: no lists, no kinds of layer.
template <typename Time, typename Visit>
void ForEachOwnCost(Time& time, const Visit& visit) {
  const double fixed = kMaxFixedNs;
  visit(CostKey{"micro_batch_fixed_ns", fixed, CostUse::kRequired},
        time.micro_batch_fixed_ns);
  ForEachLayerCost(time, CostUse::kRequiredOfText, visit);
  visit(CostKey{"collective_latency_ns", fixed, CostUse::kRequiredOfJobs},
        time.collective_latency_ns);
  visit(CostKey{"collective_latency_across_ns", fixed, CostUse::kRare},
        time.collective_latency_across_ns);
  visit(CostKey{"step_fixed_ns", fixed, CostUse::kRequiredOfJobs},
        time.step_fixed_ns);
  visit(CostKey{"head_ns_per_token", kMaxLinearNsPerToken, CostUse::kOptional},
        time.head_ns_per_token);
}

// visit(name, layers) for both kinds of layer of a video model.
template <typename Time, typename Visit>
void ForEachKind(Time& time, const Visit& visit) {
  visit("spatial", time.spatial);
  visit("temporal", time.temporal);
}

// visit(name, list) for the lists of costs by degree.
template <typename Time, typename Visit>
void ForEachCostList(Time& time, const Visit& visit) {
  visit("collective", time.collective);
  visit("gather", time.gather);
  visit("collective_across", time.collective_across);
  visit("gather_across", time.gather_across);
}

// All numbers outside lists; those of a kind of layer are called
// "spatial_linear_ns_per_token".
template <typename Time, typename Visit>
void ForEachNumber(Time& time, const Visit& visit) {
  ForEachOwnCost(time, visit);
  ForEachKind(time, [&visit](const char* kind, auto& layers) {
    ForEachLayerCost(
        layers, CostUse::kRare, [&](const CostKey& key, auto& cost) {
          visit(
              CostKey{absl::StrCat(kind, "_", key.name), key.highest, key.use},
              cost);
        });
  });
}

// The same without those that files leave out.
template <typename Time, typename Visit>
void ForEachWrittenNumber(const Time& time, const Visit& visit) {
  ForEachNumber(time, [&visit](const CostKey& key, const auto& cost) {
    if (cost != 0 || key.use != CostUse::kRare) visit(key.name, cost);
  });
}

// All numbers, then those of lists, called "collective at degree 4".
template <typename Time, typename Visit>
void ForEachCost(Time& time, const Visit& visit) {
  ForEachNumber(time, visit);
  ForEachCostList(time, [&visit](const char* name, auto& costs) {
    for (auto& entry : costs) {
      visit(CostKey{absl::StrCat(name, " at degree ", entry.degree),
                    kMaxLinearNsPerToken, CostUse::kRequired},
            entry.ns_per_token);
    }
  });
}

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_COSTS_COST_FIELDS_H_
