#include "planner/rounds/even_rounds.h"

#include <algorithm>
#include <utility>

#include "planner/rounds/round_fill.h"
#include "planner/rounds/round_search.h"
#include "planner/rounds/slow_ranks.h"

namespace evenstep::planner {
namespace {

constexpr size_t kNumStarts = 3;
constexpr int64_t kGoodEnoughDivisor = 2000;  // within 0.05 % of the bound
// Items tried for a trial of the budget, in a step of that many samples or
// fewer; in larger ones as many times more.
constexpr int64_t kWorkPerTrial = 5;
constexpr int kUsualSamples = 512;

// The best of some divisions, every round filled anew.
Rounds BestStart(const CostTable& table, RoundFiller& filler) {
  std::vector<Rounds> starts = SearchBeam(table, kNumStarts, filler);
  if (starts.empty()) starts.push_back(FillManyRounds(table, filler));
  Rounds best;
  for (Rounds& rounds : starts) {
    RefillRounds(table, filler, rounds);
    if (best.empty() || TotalNs(rounds) < TotalNs(best)) {
      best = std::move(rounds);
    }
  }
  return best;
}

bool HasRoom(const Rounds& rounds, int num_ranks) {
  return std::all_of(rounds.begin(), rounds.end(), [&](const Round& round) {
    return round.num_ranks <= num_ranks;
  });
}

// Improves the best start and each of the known divisions that have room on so
// many ranks: half the work for it, half for them. Which of them is the fastest
// to begin with says little: one may have been improved to its end, another
// hardly at all.
Rounds SearchRounds(const PolicyInput& input, int num_ranks,
                    std::vector<Rounds> known) {
  std::erase_if(known, [&](const Rounds& r) { return !HasRoom(r, num_ranks); });
  const int64_t bound_ns =
      input.bound.step_ns - input.request.time.step_fixed_ns;
  const int64_t stop_ns = bound_ns + bound_ns / kGoodEnoughDivisor;
  RoundFiller filler(input.table, num_ranks);
  const int64_t size = std::max(1, input.table.num_samples() / kUsualSamples);
  const int64_t work = input.request.options.work_budget * kWorkPerTrial * size;
  int64_t work_left = known.empty() ? work : work / 2;
  Rounds best = BestStart(input.table, filler);
  ImproveRounds(input.table, stop_ns, work_left, filler, best);
  int64_t known_work_left = work / 2;
  auto num_left = static_cast<int64_t>(known.size());
  for (Rounds& rounds : known) {
    int64_t share = known_work_left / num_left--;
    known_work_left -= share;
    ImproveRounds(input.table, stop_ns, share, filler, rounds);
    known_work_left += std::max<int64_t>(0, share);
    if (TotalNs(rounds) < TotalNs(best)) best = std::move(rounds);
  }
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

// Whether the degrees up to `num_ranks` hold every sample in some mode.
bool CanHold(const CostTable& table, int num_ranks) {
  auto holds = [&](int level, int item) {
    return table.degree(level) <= num_ranks && table.Allows(level, item);
  };
  for (int i = 0; i < table.num_samples(); ++i) {
    bool held = false;
    for (int level = 0; level < table.num_levels() && !held; ++level) {
      held = holds(level, i);
    }
    if (!held) return false;
  }
  return true;
}

}  // namespace

std::vector<std::vector<Placement>> PlaceEvenRounds(
    const PolicyInput& input,
    const std::vector<std::vector<Placement>>& known) {
  std::vector<std::vector<Placement>> found;
  if (ExactRoundsAreAffordable(input)) {
    found.push_back(PlaceRoundsExactly(input));
    return found;
  }
  const int num_ranks = input.request.cluster.num_ranks();
  std::vector<Rounds> starts;
  for (const auto& placements : known) {
    starts.push_back(ToRounds(input, placements));
    if (starts.back().empty()) starts.pop_back();
  }
  const Rounds rounds = SearchRounds(input, num_ranks, starts);
  found.push_back(ToPlacements(input, rounds));
  const SlowRanks slow = FindSlowRanks(input.request.cluster);
  if (slow.count == 0 || input.request.options.sync == SyncMode::kPerStep) {
    return found;
  }
  found.push_back(ToPlacements(input, SpareWhereFaster(input, slow, rounds)));
  if (!CanHold(input.table, num_ranks - slow.count)) return found;
  Rounds sparing =
      SearchRounds(input, num_ranks - slow.count, std::move(starts));
  for (Round& round : sparing) round.spares_slow_ranks = true;
  found.push_back(ToPlacements(input, std::move(sparing)));
  return found;
}

}  // namespace evenstep::planner
