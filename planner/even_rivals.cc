#include "planner/even_rivals.h"

#include <algorithm>
#include <utility>

#include "planner/degrees.h"
#include "planner/fits.h"
#include "planner/reference_rules.h"

namespace evenstep::planner {
namespace {

// Within 2 % of the bound is near.
constexpr int64_t kNearBoundDivisor = 50;

// Gives every micro-batch the least recompute that holds it: no slower.
void LowerRecompute(const PlanRequest& request,
                    std::vector<Placement>& placements) {
  for (Placement& placement : placements) {
    for (const LayerCounts& mode : RecomputeModes(request)) {
      placement.recompute_layers = mode;
      if (Fits(request, placement.block.degree, mode, placement.samples)) break;
    }
  }
}

bool KeepsOneDegree(Policy policy) {
  switch (policy) {
    case Policy::kStatic:
    case Policy::kBalanced:
    case Policy::kPacked:
    case Policy::kBucket:
    case Policy::kBucketTuned:
      return true;
    default:
      return false;
  }
}

// With one recompute mode these do what another row does.
bool IsTwin(Policy policy) {
  return policy == Policy::kBucketTuned || policy == Policy::kDcpIntra;
}

// No plan that keeps one degree is faster: the rank-time of all samples at a
// degree that runs them all, spread over all ranks.
int64_t OneDegreeBoundNs(const PolicyInput& input) {
  const CostTable& table = input.table;
  int64_t least_ns = INT64_MAX;
  for (int level = table.first_level(0); level < table.num_degrees(); ++level) {
    int64_t rank_ns = 0;
    bool runs_all = true;
    for (int i = 0; i < table.num_samples() && runs_all; ++i) {
      runs_all = table.Allows(level, i);
      if (runs_all) rank_ns += table.sample_ns(level, i) * table.degree(level);
    }
    if (runs_all) least_ns = std::min(least_ns, rank_ns);
  }
  if (least_ns == INT64_MAX) return INT64_MAX;
  return static_cast<int64_t>((int128{least_ns} << kSpeedFractionBits) /
                              input.costs.TotalSpeed()) +
         input.request.time.step_fixed_ns;
}

void OfferPublishedRules(const PolicyInput& input, bool one_degree_can_win,
                         Contest& contest) {
  for (const ReferenceRow& row : ReferenceRules()) {
    if (row.rule == ReferenceRule::kKarmarkarKarp && !one_degree_can_win) {
      continue;
    }
    auto placements = PlaceByRule(input, row.rule);
    if (!placements.empty()) contest.Offer(std::move(placements));
  }
}

}  // namespace

void Contest::Offer(std::vector<Placement> placements) {
  if (!input_.request.options.recompute_choices.empty()) {
    LowerRecompute(input_.request, placements);
  }
  const int most_groups = input_.request.options.max_groups_per_rank;
  if (most_groups > 0 &&
      MostGroupsPerRank(input_.request, placements) > most_groups) {
    refused_ = true;
    return;
  }
  const int64_t step_ns =
      PredictStepNs(input_.request, input_.costs, placements);
  if (!placements_.empty() && step_ns_ <= step_ns) return;
  step_ns_ = step_ns;
  placements_ = std::move(placements);
}

bool Contest::IsNearBound() const {
  const int64_t bound_ns = input_.bound.step_ns;
  return step_ns_ <= bound_ns + bound_ns / kNearBoundDivisor;
}

void OfferRivals(const PolicyInput& input, Contest& contest) {
  const bool one_mode = input.table.num_modes() == 1;
  const bool one_degree_can_win =
      !one_mode || OneDegreeBoundNs(input) < contest.step_ns();
  for (const PolicyRow& row : Policies()) {
    if (row.policy == Policy::kEven) continue;
    if (!one_degree_can_win && KeepsOneDegree(row.policy)) continue;
    if (one_mode && IsTwin(row.policy)) continue;
    // A static degree may not hold the run's longest sample; that is no reason
    // to refuse this step.
    auto placements = row.place(input);
    if (placements.ok()) contest.Offer(*std::move(placements));
  }
  if (one_mode && !contest.IsNearBound()) {
    OfferPublishedRules(input, one_degree_can_win, contest);
  }
}

}  // namespace evenstep::planner
