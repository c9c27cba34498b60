#include "planner/rounds/round_chains.h"

#include <algorithm>
#include <numeric>

namespace evenstep::planner {
namespace {

constexpr int kMaxChains = 24;

// The most items that one of the modes and floors places under best.limit_ns;
// `best` becomes its rule.
int TryModes(const CostTable& table, const std::vector<int>& modes,
             absl::Span<const int> left, RoundFiller& filler, FillRule& best) {
  int reach = 0;
  for (int mode : modes) {
    for (int floor : FloorLevels(table)) {
      const FillRule rule{best.limit_ns, floor, mode};
      const int end = filler.FillPrefix(left, rule);
      if (end <= reach) continue;
      reach = end;
      best = rule;
    }
  }
  return reach;
}

// One limit for every round that allows it: for steps of very many rounds.
Rounds FillOneByOne(const CostTable& table, int64_t limit_ns,
                    RoundFiller& filler) {
  std::vector<int> items(table.num_samples());
  std::iota(items.begin(), items.end(), 0);
  absl::Span<const int> left = absl::MakeConstSpan(items);
  Rounds rounds;
  while (!left.empty()) {
    FillRule best{std::max(limit_ns, filler.AloneNs(left[0]))};
    int reach = TryModes(table, FewModes(table), left, filler, best);
    // The first item may end within its least time in another mode only.
    for (int mode = 0; reach == 0; ++mode) {
      reach = TryModes(table, {mode}, left, filler, best);
    }
    filler.FillPrefix(left.subspan(0, reach), best);
    rounds.push_back(filler.TakeRound());
    left = left.subspan(reach);
  }
  return rounds;
}

}  // namespace

Rounds FillManyRounds(const CostTable& table, RoundFiller& filler) {
  Rounds best;
  int64_t limit_ns = filler.AloneNs(table.num_samples() - 1);
  int64_t enough_ns = 0;
  for (int i = 0; i < table.num_samples(); ++i) {
    enough_ns = std::max(enough_ns, filler.AloneNs(i));
  }
  for (int k = 0; k < kMaxChains; ++k) {
    Rounds rounds = FillOneByOne(table, limit_ns, filler);
    if (best.empty() || TotalNs(rounds) < TotalNs(best)) {
      best = std::move(rounds);
    } else if (limit_ns > enough_ns) {
      break;
    }
    limit_ns += limit_ns / 4 + 1;
  }
  return best;
}

}  // namespace evenstep::planner
