#include "planner/even/candidate_set.h"

#include <algorithm>
#include <set>
#include <utility>

#include "planner/costs/degrees.h"
#include "planner/costs/fits.h"
#include "planner/planner.h"
#include "planner/policies/reference_rules.h"

namespace evenstep::planner {
namespace {

// Within 2 % of the bound is near.
constexpr int64_t kNearBoundDivisor = 50;

// Of one published rule, about 0.1 s. Tens of thousands of samples take less;
// larger steps are planned without the rules whose work grows with samples
// times rounds.
constexpr int64_t kWorkOfRule = 100'000'000;

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

// At which the run's longest sample can run in some mode of recompute.
std::set<int> DegreesOfTheRun(const PlanRequest& request) {
  std::set<int> degrees;
  PlanRequest of_mode = request;
  for (const LayerCounts& mode : RecomputeModes(request)) {
    of_mode.options.recompute_layers = mode;
    for (int degree : StaticDegrees(of_mode)) degrees.insert(degree);
  }
  return degrees;
}

// Of a policy that keeps one degree: at every degree but the one that the row
// itself takes. Where the row chooses a mode too, it takes one in each.
void OfferOtherDegrees(const PolicyInput& input, const PolicyRow& row,
                       CandidateSet& candidates) {
  const bool one_mode = input.table.num_modes() == 1;
  const auto own = StaticDegree(input.request);
  if (one_mode && !own.ok()) return;
  PlanRequest request = input.request;
  for (int degree : DegreesOfTheRun(input.request)) {
    if (one_mode && degree == *own) continue;
    request.options.static_degree = degree;
    auto placements =
        row.place({request, input.costs, input.table, input.bound});
    if (placements.ok()) candidates.Offer(*std::move(placements));
  }
}

void OfferPublishedRules(const PolicyInput& input, bool one_degree_can_win,
                         CandidateSet& candidates) {
  for (const ReferenceRow& row : ReferenceRules()) {
    if (row.rule == ReferenceRule::kKarmarkarKarp && !one_degree_can_win) {
      continue;
    }
    int64_t work_left = kWorkOfRule;
    auto placements = PlaceByRule(input, row.rule, work_left);
    if (!placements.empty()) candidates.Offer(std::move(placements));
  }
}

}  // namespace

CandidateSet::CandidateSet(const PolicyInput& input) : input_(input) {
  for (const LayerCounts& mode : RecomputeModes(input.request)) {
    costs_of_mode_.push_back(input.costs.WithRecompute(mode));
  }
}

// A micro-batch that ends sooner delays none under either sync.
void CandidateSet::LowerRecompute(std::vector<Placement>& placements) const {
  const PlanRequest& request = input_.request;
  for (Placement& placement : placements) {
    const int degree = placement.block.degree;
    const BatchSize size = SizeOfBatch(request, degree, placement.samples);
    const int64_t tokens_per_rank = PaddedTokens(size.tokens, degree) / degree;
    const BlockClass block_class = input_.costs.ClassOf(placement.block);
    const LayerCounts current = placement.recompute_layers == kRecomputeAsAsked
                                    ? request.options.recompute_layers
                                    : placement.recompute_layers;
    const auto costs_now = std::find_if(
        costs_of_mode_.begin(), costs_of_mode_.end(),
        [&](const auto& c) { return c.recompute_layers() == current; });
    int64_t least_ns = costs_now->MicroBatchNs(block_class, size);
    for (const CostModel& costs : costs_of_mode_) {
      const LayerCounts& mode = costs.recompute_layers();
      if (tokens_per_rank > TokensPerRank(request, mode, degree)) continue;
      const int64_t ns = costs.MicroBatchNs(block_class, size);
      if (ns >= least_ns) continue;
      least_ns = ns;
      placement.recompute_layers = mode;
    }
  }
}

void CandidateSet::Offer(std::vector<Placement> placements) {
  if (costs_of_mode_.size() > 1) LowerRecompute(placements);
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

void CandidateSet::OfferEach(std::vector<std::vector<Placement>> several) {
  for (auto& placements : several) Offer(std::move(placements));
}

bool CandidateSet::IsNearBound() const {
  const int64_t bound_ns = input_.bound.step_ns;
  return step_ns_ <= bound_ns + bound_ns / kNearBoundDivisor;
}

bool CandidateSet::Recomputes() const {
  return std::any_of(placements_.begin(), placements_.end(),
                     [&](const Placement& placement) {
                       const LayerCounts& layers =
                           placement.recompute_layers == kRecomputeAsAsked
                               ? input_.request.options.recompute_layers
                               : placement.recompute_layers;
                       return layers.total() > 0;
                     });
}

void AddBaselineCandidates(const PolicyInput& input, CandidateSet& candidates) {
  const bool one_mode = input.table.num_modes() == 1;
  const bool one_degree_can_win =
      !one_mode || OneDegreeBoundNs(input) < candidates.step_ns();
  for (const PolicyRow& row : Policies()) {
    if (row.policy == Policy::kEven) continue;
    if (!one_degree_can_win && KeepsOneDegree(row.policy)) continue;
    if (one_mode && IsTwin(row.policy)) continue;
    // A static degree may not hold the run's longest sample; that is no reason
    // to refuse this step.
    auto placements = row.place(input);
    if (placements.ok()) candidates.Offer(*std::move(placements));
    // With several modes the tuned row alone chooses among them.
    if (one_mode ? KeepsOneDegree(row.policy)
                 : row.policy == Policy::kBucketTuned) {
      OfferOtherDegrees(input, row, candidates);
    }
  }
  if (one_mode && !candidates.IsNearBound()) {
    OfferPublishedRules(input, one_degree_can_win, candidates);
  }
}

}  // namespace evenstep::planner
