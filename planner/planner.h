#ifndef EVENSTEP_PLANNER_PLANNER_H_
#define EVENSTEP_PLANNER_PLANNER_H_

// The planner's entry point: which samples of a step run together, on how many
// ranks, in which order. Called by the coordinator for every step. Pure: same
// request, same plan, byte for byte; bounded by counted work. Thread-safe: no
// state. Plain structs in, plain structs or an error out.
//
//   PlanRequest request = ...;               // request.h: what is asked
//   absl::StatusOr<Plan> plan = MakePlan(request);  // plan.h: what is answered
//   absl::Status verdict = CheckPlan(request, *plan);
//   for (const MicroBatch& micro_batch : plan->micro_batches) {
//     for (int index : micro_batch.samples) Use(request.samples[index].id);
//   }
//
// This header is the whole interface, so it brings request.h, plan.h and
// proof/checker.h (CheckPlan) along. README.md of this folder names the files
// and their order.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "planner/plan.h"
#include "planner/proof/checker.h"
#include "planner/request.h"

namespace evenstep::planner {

// INVALID_ARGUMENT: the request breaks a rule of validate.h (the sentence names
// the sample or field, with its number). FAILED_PRECONDITION: no plan exists;
// the sentence says why, with the numbers, and what would make it fit.
absl::StatusOr<Plan> MakePlan(const PlanRequest& request);

// Whether a sample of `max_length` tokens can run at all, from facts known at
// submit time: all of `request` but its samples; its time may be all zero.
// FAILED_PRECONDITION with the numbers when not.
absl::Status CheckFits(int64_t max_length, PlanRequest request);

absl::string_view PolicyName(Policy policy);
// As PolicyName gives them, in the order of the table of policies.
std::vector<std::string> PolicyNames();
// INVALID_ARGUMENT naming the known policies.
absl::StatusOr<Policy> ParsePolicy(absl::string_view name);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_PLANNER_H_
