#ifndef EVENSTEP_PLANNER_POLICIES_REFERENCE_RULES_H_
#define EVENSTEP_PLANNER_POLICIES_REFERENCE_RULES_H_

// Rules by which other systems plan a step, restated in our own words, so that
// benchmarks and tests compare with them under the same request, costs, memory
// and checker. Not policies: no job can ask for them. Where a rule leaves
// something open (what a group holds, what a sample costs), it gets the kinder
// reading: groups pack samples up to memory, and costs are the request's own.
// Stateless.

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "planner/costs/cost_table.h"
#include "planner/plan.h"
#include "planner/policies.h"
#include "planner/request.h"
#include "planner/rounds/round_packing.h"

namespace evenstep::planner {

enum class ReferenceRule {
  // Megatron-LM, dynamic context parallelism: every sample on the smallest
  // power of two of ranks that holds it, in the group with the least sum of
  // s^2 / degree; ranks left over double the heaviest groups of a round.
  kDynamicContextParallel,
  // verl: one degree set by the longest sample; Karmarkar-Karp over the
  // replicas by cost, then over each replica's micro-batches.
  kKarmarkarKarp,
  // FlexSP's heuristic, ByteScale: best-fit decreasing into groups of the
  // smallest degree that holds, rounds of groups of like time, the slowest of a
  // round grown into the ranks left over.
  kBestFitGrowth
};

struct ReferenceRow {
  ReferenceRule rule;
  absl::string_view name;
};

absl::Span<const ReferenceRow> ReferenceRules();

// Placements by that rule; the request may have one recompute mode only. What
// it does (groups and items looked at) is taken from `work_left`; nothing is
// placed once that is used up.
std::vector<Placement> PlaceByRule(const PolicyInput& input, ReferenceRule rule,
                                   int64_t& work_left);

// The rules.
std::vector<Placement> PlaceDynamicContextParallel(const PolicyInput& input,
                                                   int64_t& work_left);
std::vector<Placement> PlaceKarmarkarKarp(const PolicyInput& input,
                                          int64_t& work_left);
std::vector<Placement> PlaceBestFitGrowth(const PolicyInput& input,
                                          int64_t& work_left);

// A plan by that rule, with options.recompute_layers in every micro-batch
// (recompute_choices must be empty). Fails as MakePlan does.
absl::StatusOr<Plan> MakeReferencePlan(const PlanRequest& request,
                                       ReferenceRule rule);

// For the rules only: the levels that they know, and groups that change theirs.

// Levels of power-of-two degrees, and the widest, which may be needed to hold
// the longest sample.
std::vector<int> PowerOfTwoLevels(const CostTable& table);

int SmallestLevel(const CostTable& table, const std::vector<int>& levels,
                  int item);

// The smallest that runs every item; -1 if none does.
int SmallestLevelForAll(const CostTable& table);

// Whether a group's items fit another level.
bool CanSetLevel(const CostTable& table, int level, const RoundGroup& group);

// Moves a group to another level; its time follows.
void SetLevel(const CostTable& table, int level, RoundGroup& group);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_POLICIES_REFERENCE_RULES_H_
