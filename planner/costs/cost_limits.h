#ifndef EVENSTEP_PLANNER_COSTS_COST_LIMITS_H_
#define EVENSTEP_PLANNER_COSTS_COST_LIMITS_H_

// Which costs are legal, by the table of cost_fields.h. Used for requests, cost
// files and jobs, and by all that estimates costs from measured times: an
// estimate beyond a limit is held at it, so that it never makes a request
// illegal. Stateless.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "planner/model.h"

namespace evenstep::planner {

struct CostBreak {
  std::string key;       // of a cost file, such as "gather"
  std::string sentence;  // "-1 is not in 0 to 1073741824"
};

// The first cost that no request may have.
std::optional<CostBreak> FindCostBreak(const TimeModel& time);
// The same as INVALID_ARGUMENT: "time.KEY: SENTENCE".
absl::Status ValidateTime(const TimeModel& time);

// Whether no cost that a plan of this model may pay is above 0; what every plan
// pays alike, step_fixed_ns, does not count.
bool IsFree(TimeModel time, const ModelShape& model);

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
// ones if some are not numbers or all are 0.
TimeModel PlannableCosts(const TimeModel& measured, const ModelShape& model);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_COSTS_COST_LIMITS_H_
