#ifndef EVENSTEP_PLANNER_COSTS_COST_LIMITS_H_
#define EVENSTEP_PLANNER_COSTS_COST_LIMITS_H_

// The table of all costs of a TimeModel with the highest value that is legal
// for each; the lowest is 0. Used by ValidateTime, by the rules of a job's
// costs, and by all that estimates costs from measured times: an estimate
// beyond a limit is held at it, so that it never makes a request illegal.
// Stateless.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "planner/limits.h"
#include "planner/model.h"

namespace evenstep::planner {

// Calls visit(name, cost, highest) for each cost, in a fixed order. Costs are
// int64_t (nanoseconds) or double; `Time` is TimeModel or const TimeModel. A
// list's entry is called "collective of degree 4".
template <typename Time, typename Visit>
void VisitCosts(Time& time, const Visit& visit) {
  visit("micro_batch_fixed_ns", time.micro_batch_fixed_ns, kMaxFixedNs);
  visit("linear_ns_per_token", time.linear_ns_per_token, kMaxLinearNsPerToken);
  visit("quadratic_ns_per_token2", time.quadratic_ns_per_token2,
        kMaxQuadraticNsPerToken2);
  visit("collective_latency_ns", time.collective_latency_ns, kMaxFixedNs);
  visit("collective_latency_across_ns", time.collective_latency_across_ns,
        kMaxFixedNs);
  visit("step_fixed_ns", time.step_fixed_ns, kMaxFixedNs);
  visit("head_ns_per_token", time.head_ns_per_token, kMaxLinearNsPerToken);
  // Attention is a part of the linear cost.
  visit("attention_ns_per_token", time.attention_ns_per_token,
        time.linear_ns_per_token);
  visit("sharded_attention_ns_per_token", time.sharded_attention_ns_per_token,
        kMaxLinearNsPerToken);
  const auto visit_kind = [&visit](const std::string& kind, auto& layers) {
    visit(kind + "linear_ns_per_token", layers.linear_ns_per_token,
          kMaxLinearNsPerToken);
    visit(kind + "quadratic_ns_per_token2", layers.quadratic_ns_per_token2,
          kMaxQuadraticNsPerToken2);
    visit(kind + "attention_ns_per_token", layers.attention_ns_per_token,
          layers.linear_ns_per_token);
    visit(kind + "sharded_attention_ns_per_token",
          layers.sharded_attention_ns_per_token, kMaxLinearNsPerToken);
  };
  visit_kind("spatial.", time.spatial);
  visit_kind("temporal.", time.temporal);
  const auto visit_list = [&visit](const char* name, auto& costs) {
    for (auto& entry : costs) {
      visit(absl::StrCat(name, " of degree ", entry.degree), entry.ns_per_token,
            kMaxLinearNsPerToken);
    }
  };
  visit_list("collective", time.collective);
  visit_list("gather", time.gather);
  visit_list("collective_across", time.collective_across);
  visit_list("gather_across", time.gather_across);
}

// INVALID_ARGUMENT with the field and the number.
absl::Status ValidateTime(const TimeModel& time);

// The same model with every cost at its limit.
TimeModel HighestCosts(TimeModel time);

// Every cost within its limits. What is not a number stays, for ValidateTime to
// refuse.
TimeModel WithinLimits(TimeModel time);

// A fixed cost in whole nanoseconds, within limits. 0 for what is not a number.
int64_t FixedCostNs(double ns);

// Costs of a model for which no measurement can be used: its arithmetic, at
// 1e13 multiplications with additions a second. Plans made with them are valid
// and about even; their times are no prediction.
TimeModel NominalCosts(const ModelShape& model);

// Measured costs as plans can be made with them: within limits, and nominal
// ones if some are not numbers.
TimeModel PlannableCosts(const TimeModel& measured, const ModelShape& model);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_COSTS_COST_LIMITS_H_
