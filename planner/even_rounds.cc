#include "planner/even_rounds.h"

#include <utility>

#include "planner/exact_rounds.h"
#include "planner/round_beam.h"
#include "planner/round_chains.h"
#include "planner/round_fill.h"
#include "planner/round_search.h"

namespace evenstep::planner {
namespace {

constexpr size_t kNumStarts = 3;
constexpr int64_t kGoodEnoughDivisor = 2000;  // within 0.05 % of the bound
constexpr int64_t kWorkPerTrial = 5;  // items tried for a trial of the budget

Rounds SearchRounds(const PolicyInput& input) {
  const int64_t bound_ns =
      input.bound.step_ns - input.request.time.step_fixed_ns;
  const int64_t stop_ns = bound_ns + bound_ns / kGoodEnoughDivisor;
  RoundFiller filler(input.table, input.request.cluster.num_ranks());
  std::vector<Rounds> starts = SearchBeam(input.table, kNumStarts, filler);
  if (starts.empty()) starts.push_back(FillManyRounds(input.table, filler));
  Rounds best;
  for (Rounds& rounds : starts) {
    RefillRounds(input.table, filler, rounds);
    if (best.empty() || TotalNs(rounds) < TotalNs(best)) {
      best = std::move(rounds);
    }
  }
  int64_t work_left = input.request.options.work_budget * kWorkPerTrial;
  ImproveRounds(input.table, stop_ns, work_left, filler, best);
  return best;
}

}  // namespace

std::vector<Placement> PlaceEvenRounds(const PolicyInput& input) {
  if (ExactRoundsAreAffordable(input)) return PlaceRoundsExactly(input);
  return ToPlacements(input, SearchRounds(input));
}

}  // namespace evenstep::planner
