#include "planner/rounds/even_rounds.h"

#include <algorithm>
#include <utility>

#include "planner/even/slow_ranks.h"
#include "planner/rounds/exact_rounds.h"
#include "planner/rounds/round_beam.h"
#include "planner/rounds/round_chains.h"
#include "planner/rounds/round_fill.h"
#include "planner/rounds/round_search.h"

namespace evenstep::planner {
namespace {

constexpr size_t kNumStarts = 3;
constexpr int64_t kGoodEnoughDivisor = 2000;  // within 0.05 % of the bound
// Items tried for a trial of the budget, in a step of that many samples or
// fewer; in larger ones as many times more.
constexpr int64_t kWorkPerTrial = 5;
constexpr int kUsualSamples = 512;

Rounds SearchRounds(const PolicyInput& input, int num_ranks) {
  const int64_t bound_ns =
      input.bound.step_ns - input.request.time.step_fixed_ns;
  const int64_t stop_ns = bound_ns + bound_ns / kGoodEnoughDivisor;
  RoundFiller filler(input.table, num_ranks);
  std::vector<Rounds> starts = SearchBeam(input.table, kNumStarts, filler);
  if (starts.empty()) starts.push_back(FillManyRounds(input.table, filler));
  Rounds best;
  for (Rounds& rounds : starts) {
    RefillRounds(input.table, filler, rounds);
    if (best.empty() || TotalNs(rounds) < TotalNs(best)) {
      best = std::move(rounds);
    }
  }
  const int64_t size = std::max(1, input.table.num_samples() / kUsualSamples);
  int64_t work_left = input.request.options.work_budget * kWorkPerTrial * size;
  ImproveRounds(input.table, stop_ns, work_left, filler, best);
  return best;
}

// Fills rounds anew without the slow ranks where they would hold it up more.
Rounds SpareWhereFaster(const PolicyInput& input, const SlowRanks& slow,
                        Rounds rounds) {
  RoundFiller filler(input.table,
                     input.request.cluster.num_ranks() - slow.count);
  for (Round& round : rounds) {
    const int64_t held_up_ns = HeldUpNs(slow, round.peak_ns);
    Round sparing;
    if (!Multifit(round.Items(), input.table, held_up_ns, filler, sparing)) {
      continue;
    }
    round = std::move(sparing);
    round.spares_slow_ranks = true;
  }
  return rounds;
}

// Whether the degrees up to `num_ranks` hold every sample.
bool CanHold(const CostTable& table, int num_ranks) {
  for (int i = 0; i < table.num_samples(); ++i) {
    if (table.degree(table.first_level(i)) > num_ranks) return false;
  }
  return true;
}

}  // namespace

std::vector<Placement> PlaceEvenRounds(const PolicyInput& input) {
  if (ExactRoundsAreAffordable(input)) return PlaceRoundsExactly(input);
  return ToPlacements(input,
                      SearchRounds(input, input.request.cluster.num_ranks()));
}

std::vector<std::vector<Placement>> PlaceSparingSlowRanks(
    const PolicyInput& input) {
  const SlowRanks slow = FindSlowRanks(input.request.cluster);
  if (slow.count == 0 || ExactRoundsAreAffordable(input)) return {};
  const int num_ranks = input.request.cluster.num_ranks();
  std::vector<std::vector<Placement>> found;
  found.push_back(ToPlacements(
      input, SpareWhereFaster(input, slow, SearchRounds(input, num_ranks))));
  if (input.table.num_modes() > 1 ||
      !CanHold(input.table, num_ranks - slow.count)) {
    return found;
  }
  Rounds sparing = SearchRounds(input, num_ranks - slow.count);
  for (Round& round : sparing) round.spares_slow_ranks = true;
  found.push_back(ToPlacements(input, std::move(sparing)));
  return found;
}

}  // namespace evenstep::planner
