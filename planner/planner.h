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
//
// How the room is laid out, in the order of MakePlan:
//   request.h, model.h and plan.h: what is asked and answered
//   validate.h      what a legal request is, and the limits
//   degrees.h       legal degrees, modes of sequence parallelism, blocks
//   sample_size.h   what a sample comes to at a degree, padding included
//   memory_model.h  what a rank holds; fits.h: what fits where
//   cost_model.h    time of a micro-batch, in integers
//   bounds.h        how fast any plan can be
//   policies.h      the table of policies; static_policies.cc,
//                   bucket_policies.cc and even.cc
//   evaluate.h      placements to a plan with all its numbers; digest.h
//   checker.cc      a second opinion: of the above it uses validate.h alone;
//                   so does checker_formulas.h
//   simulator.h     a plan on hardware with noise, stragglers, wrong costs
// Beside it: published_costs.h and cost_file.h (models as YAML), elastic.h (a
// step drawn from a pool).
// `even` stands on block_tree.h (why balancing a tree is enough),
// tree_packing.h, level_fill.h, local_search.h, kicks.h and exact.h; under
// per_round, and with contiguous blocks, on even_rounds.h: round_packing.h,
// round_fill.h, round_beam.h, round_search.h, round_moves.h, slow_ranks.h and
// exact_rounds.h.

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

// Proves laws 1 and 3 for `plan`, and the arithmetic of every number in it but
// one: of lower_bound_ns only that it lies within the step's fixed time and the
// step, of active_bound that it names an argument. A bound that is too low, or
// that another argument gave, passes; bounds_test.cc is what holds bounds.h.
// It uses the planner's validation, no other code. INTERNAL: a broken rule.
absl::Status CheckPlan(const PlanRequest& request, const Plan& plan);

// Degrees that the model's heads allow on this cluster's blocks of the asked
// shape, ascending; 1 is always among them.
std::vector<int> LegalDegrees(const PlanRequest& request);

// Whether a sample of `max_length` tokens can run at all, from facts known at
// submit time: all of `request` but its samples. FAILED_PRECONDITION with the
// numbers when not.
absl::Status CheckFits(int64_t max_length, PlanRequest request);

absl::string_view PolicyName(Policy policy);
// INVALID_ARGUMENT naming the known policies.
absl::StatusOr<Policy> ParsePolicy(absl::string_view name);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_PLANNER_H_
