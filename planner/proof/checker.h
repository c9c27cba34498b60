#ifndef EVENSTEP_PLANNER_PROOF_CHECKER_H_
#define EVENSTEP_PLANNER_PROOF_CHECKER_H_

// The second opinion on a plan. Pure; thread-safe.

#include "absl/status/status.h"
#include "planner/plan.h"
#include "planner/request.h"

namespace evenstep::planner {

// Proves laws 1 and 3 for `plan`, and the arithmetic of every number in it but
// one: of lower_bound_ns only that it lies within the step's fixed time and the
// step, of active_bound that it names an argument. A bound that is too low, or
// that another argument gave, passes; bounds_test.cc is what holds bounds.h.
// It uses the planner's validation, no other code. INTERNAL: a broken rule.
absl::Status CheckPlan(const PlanRequest& request, const Plan& plan);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_PROOF_CHECKER_H_
