#ifndef EVENSTEP_PLANNER_VALIDATE_COSTS_H_
#define EVENSTEP_PLANNER_VALIDATE_COSTS_H_

// The part of validate.h that looks at costs: numbers of the time and memory
// models, and that no sum of them can overflow. Called by ValidateRequest in
// the order below: each relies on what comes before. ValidateTime is also for
// costs before there is a request. Stateless.

#include "absl/status/status.h"
#include "planner/request.h"

namespace evenstep::planner {

// INVALID_ARGUMENT with the field and the number.
absl::Status ValidateTime(const TimeModel& time);
// Also that every choice of recompute leaves room for a token.
absl::Status ValidateMemory(const PlanRequest& request);
// Refuses costs whose sums could leave 63 bits.
absl::Status ValidateTotalTime(const PlanRequest& request);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_VALIDATE_COSTS_H_
