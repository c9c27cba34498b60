#include "planner/proof/bounds.h"

#include <algorithm>
#include <vector>

#include "planner/costs/memory_model.h"

namespace evenstep::planner {
namespace {

constexpr int64_t kForever = INT64_MAX;

int64_t CeilDivide(int128 numerator, int64_t denominator) {
  return static_cast<int64_t>((numerator + denominator - 1) / denominator);
}

int64_t SpreadNs(int64_t rank_ns, const CostModel& costs) {
  return CeilDivide(int128{rank_ns} << kSpeedFractionBits, costs.TotalSpeed());
}

// What the rounds cost whatever they hold. Under per_round every rank pays the
// fixed cost of every round, and memory forces a number of rounds, so that the
// cost is taken off the step and off the samples' shares, and the rest is
// bounded as ever. Without rounds: 0, and the table's own rank-times.
struct RoundCosts {
  int64_t all_ns = 0;     // of all rounds
  int64_t others_ns = 0;  // of all but one, that of the sample at hand
  // By level and sample: without the shares of the rounds' fixed cost.
  std::vector<int64_t> rank_ns = {};
};

int64_t PlacesNeeded(const PlanRequest& request) {
  int64_t tokens = 0;
  for (const Sample& sample : request.samples) tokens += sample.length;
  return CeilDivide(tokens, MostTokensPerRank(request));
}

int64_t LeastFixedNs(const PlanRequest& request, const CostModel& costs) {
  const int64_t speed = FastestBlockSpeed(request, costs, {});
  return static_cast<int64_t>(
      (int128{costs.FixedNs({})} << kSpeedFractionBits) / speed);
}

std::vector<int64_t> RankNsWithout(int64_t round_ns, const CostTable& table,
                                   const PlanRequest& request) {
  std::vector<int64_t> rank_ns;
  for (int level = 0; level < table.num_levels(); ++level) {
    const int64_t tokens_per_rank = std::max<int64_t>(
        1, TokensPerRank(request, table.recompute_layers(level),
                         table.degree(level)));
    for (int i = 0; i < table.num_samples(); ++i) {
      const bool runs = table.Allows(level, i);
      const int64_t share_ns =
          runs ? CeilDivide(int128{round_ns} * table.tokens(level, i),
                            tokens_per_rank)
               : 0;
      rank_ns.push_back(
          std::max<int64_t>(0, table.rank_ns(level, i) - share_ns));
    }
  }
  return rank_ns;
}

RoundCosts CostsOfRounds(const PlanRequest& request, const CostModel& costs,
                         const CostTable& table) {
  const int64_t num_rounds =
      CeilDivide(PlacesNeeded(request), request.cluster.num_ranks());
  const int64_t round_ns = LeastFixedNs(request, costs);
  return {num_rounds * round_ns, (num_rounds - 1) * round_ns,
          RankNsWithout(costs.FixedNs({}), table, request)};
}

// The least of sample i among the levels that end within `limit_ns`, the shares
// of rounds apart; kForever if there is none.
int64_t LeastRankNs(const CostTable& table, const RoundCosts& rounds,
                    int64_t limit_ns, int i) {
  if (rounds.rank_ns.empty()) {
    const int level = table.BestLevel(i, limit_ns);
    return level < 0 ? kForever : table.rank_ns(level, i);
  }
  int64_t least_ns = kForever;
  for (int level = 0; level < table.num_levels(); ++level) {
    if (!table.Allows(level, i) || table.alone_ns(level, i) > limit_ns) {
      continue;
    }
    const size_t cell = static_cast<size_t>(level) * table.num_samples() + i;
    least_ns = std::min(least_ns, rounds.rank_ns[cell]);
  }
  return least_ns;
}

// If every sample ends within `limit_ns`; kForever if some sample cannot.
int64_t AreaNs(const CostTable& table, const CostModel& costs,
               const RoundCosts& rounds, int64_t limit_ns) {
  int64_t total_ns = 0;
  for (int i = 0; i < table.num_samples(); ++i) {
    const int64_t rank_ns = LeastRankNs(table, rounds, limit_ns, i);
    if (rank_ns == kForever) return kForever;
    total_ns += rank_ns;
  }
  return rounds.all_ns + SpreadNs(total_ns, costs);
}

int64_t LongestNs(const CostTable& table) {
  int64_t longest_ns = 0;
  for (int i = 0; i < table.num_samples(); ++i) {
    int64_t best_ns = kForever;
    for (int mode = 0; mode < table.num_modes(); ++mode) {
      for (int k = table.first_level(i, mode); k < table.end_level(mode); ++k) {
        if (!table.Allows(k, i)) continue;
        best_ns = std::min(best_ns, table.alone_ns(k, i));
      }
    }
    longest_ns = std::max(longest_ns, best_ns);
  }
  return longest_ns;
}

// A micro-batch of degree d holds at most d * cap tokens and occupies d ranks,
// so tokens / cap places are needed, and the busiest rank has its share.
int64_t MemoryNs(const PlanRequest& request, const CostModel& costs) {
  return CeilDivide(PlacesNeeded(request), request.cluster.num_ranks()) *
         LeastFixedNs(request, costs);
}

// Bisection between a time that is known to be impossible and one that is not
// shown to be. Stops at one part in a million: the answer stays a bound.
int64_t DestructiveNs(const CostTable& table, const CostModel& costs,
                      const RoundCosts& rounds, int64_t simple_bound_ns) {
  auto possible = [&](int64_t limit_ns) {
    return AreaNs(table, costs, rounds, limit_ns - rounds.others_ns) <=
           limit_ns;
  };
  if (possible(simple_bound_ns)) return simple_bound_ns;
  int64_t impossible_ns = simple_bound_ns;
  int64_t step_ns = std::max<int64_t>(1, simple_bound_ns / 64);
  int64_t possible_ns = simple_bound_ns + step_ns;
  while (!possible(possible_ns)) {
    impossible_ns = possible_ns;
    step_ns *= 2;
    possible_ns += step_ns;
  }
  while (possible_ns - impossible_ns > 1 + (impossible_ns >> 20)) {
    const int64_t middle_ns = impossible_ns + (possible_ns - impossible_ns) / 2;
    (possible(middle_ns) ? possible_ns : impossible_ns) = middle_ns;
  }
  return impossible_ns + 1;
}

}  // namespace

LowerBound ComputeLowerBound(const PlanRequest& request, const CostModel& costs,
                             const CostTable& table) {
  LowerBound bound;
  int64_t best_ns = AreaNs(table, costs, {}, kForever);
  auto raise = [&](int64_t ns, BoundKind kind) {
    if (ns <= best_ns) return;
    best_ns = ns;
    bound.kind = kind;
  };
  raise(LongestNs(table), BoundKind::kLongest);
  raise(MemoryNs(request, costs), BoundKind::kMemory);
  if (request.options.sync == SyncMode::kPerRound) {
    const RoundCosts rounds = CostsOfRounds(request, costs, table);
    raise(AreaNs(table, costs, rounds, kForever), BoundKind::kArea);
    raise(LongestNs(table) + rounds.others_ns, BoundKind::kLongest);
    raise(DestructiveNs(table, costs, rounds, best_ns),
          BoundKind::kDestructive);
  }
  raise(DestructiveNs(table, costs, {}, best_ns), BoundKind::kDestructive);
  bound.step_ns = best_ns + request.time.step_fixed_ns;
  return bound;
}

}  // namespace evenstep::planner
