#include "planner/even_rounds.h"

#include <utility>

#include "planner/exact_rounds.h"
#include "planner/round_fill.h"
#include "planner/round_search.h"
#include "planner/round_segments.h"

namespace evenstep::planner {
namespace {

constexpr size_t kNumImproved = 3;
constexpr int64_t kGoodEnoughDivisor = 2000;  // within 0.05 % of the bound
// Items tried for a trial of the work budget: for each of the first cuts, and
// for what has become the best of them.
constexpr int64_t kFirstWorkPerTrial = 8;
constexpr int64_t kLastWorkPerTrial = 48;

Rounds SearchRounds(const PolicyInput& input) {
  const int64_t bound_ns =
      input.bound.step_ns - input.request.time.step_fixed_ns;
  const int64_t stop_ns = bound_ns + bound_ns / kGoodEnoughDivisor;
  const int64_t budget = input.request.options.work_budget;
  RoundFiller filler(input.table, input.request.cluster.num_ranks());
  Rounds best;
  for (Rounds& rounds : CutIntoRounds(input.table, kNumImproved, filler)) {
    int64_t work_left = budget * kFirstWorkPerTrial;
    ImproveRounds(input.table, stop_ns, work_left, filler, rounds);
    if (best.empty() || TotalNs(rounds) < TotalNs(best)) {
      best = std::move(rounds);
    }
  }
  int64_t work_left = budget * kLastWorkPerTrial;
  ImproveRounds(input.table, stop_ns, work_left, filler, best);
  return best;
}

}  // namespace

std::vector<Placement> PlaceEvenRounds(const PolicyInput& input) {
  if (ExactRoundsAreAffordable(input)) return PlaceRoundsExactly(input);
  return ToPlacements(input, SearchRounds(input));
}

}  // namespace evenstep::planner
