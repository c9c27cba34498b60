#ifndef EVENSTEP_PLANNER_PLANNER_H_
#define EVENSTEP_PLANNER_PLANNER_H_

// The planner's entry point. Pure: same request, same plan, byte for byte;
// bounded by counted work. Thread-safe: no state.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/plan.h"
#include "planner/request.h"

namespace evenstep::planner {

// INVALID_ARGUMENT: the request breaks a rule of validate.h (the sentence names
// the sample or field, with its number). FAILED_PRECONDITION: no plan exists;
// the sentence says why, with the numbers, and what would make it fit.
absl::StatusOr<Plan> MakePlan(const PlanRequest& request);

// Proves laws 1 and 3 for `plan`, and the arithmetic of every number in it.
// Shares no code with the policies. INTERNAL with the first broken rule.
absl::Status CheckPlan(const PlanRequest& request, const Plan& plan);

// Degrees that the model's heads allow on this cluster's aligned blocks,
// ascending; 1 is always among them.
std::vector<int> LegalDegrees(const PlanRequest& request);

// Whether a sample of `max_length` tokens can run at all, from facts known at
// submit time. FAILED_PRECONDITION with the numbers when not.
absl::Status CheckFits(int64_t max_length, const Cluster& cluster,
                       const ModelShape& model, const MemoryModel& memory);

absl::string_view PolicyName(Policy policy);
// INVALID_ARGUMENT naming the known policies.
absl::StatusOr<Policy> ParsePolicy(absl::string_view name);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_PLANNER_H_
