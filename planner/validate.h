#ifndef EVENSTEP_PLANNER_VALIDATE_H_
#define EVENSTEP_PLANNER_VALIDATE_H_

// What a legal PlanRequest is: every number within its limit (limits.h), some
// cost above 0, and no sum beyond 63 bits. MakePlan and CheckPlan call
// ValidateRequest first; all other code of this room may rely on it having
// passed. Stateless.

#include <vector>

#include "absl/status/status.h"
#include "planner/request.h"

namespace evenstep::planner {

// INVALID_ARGUMENT with the field, or the sample's id, and the number.
absl::Status ValidateRequest(const PlanRequest& request);
// The numbers of Cluster::rank_speed alone.
absl::Status ValidateRankSpeeds(const std::vector<double>& speeds);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_VALIDATE_H_
