#include "planner/proof/bounds.h"

#include <algorithm>
#include <numeric>

#include "planner/planner.h"

namespace evenstep::planner {
namespace {

constexpr int64_t kForever = INT64_MAX;
// Of a sample where it cannot run; sums of it still fit 63 bits.
constexpr int64_t kTooLongNs = int64_t{1} << 50;

int64_t CeilDivide(int128 numerator, int64_t denominator) {
  return static_cast<int64_t>((numerator + denominator - 1) / denominator);
}

// Speed of the fastest block of a class: that of its slowest rank.
int64_t FastestBlockSpeed(const PlanRequest& request, const CostModel& costs,
                          const BlockClass& block_class) {
  if (request.cluster.rank_speed.empty()) return costs.BlockSpeed({0, 1});
  int64_t fastest = 0;
  for (const Block& block : BlocksOfClass(request, block_class)) {
    fastest = std::max(fastest, costs.BlockSpeed(block));
  }
  return fastest;
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

CostTable::CostTable(const PlanRequest& request, const CostModel& costs)
    : degrees_(BlockClasses(request)), modes_(RecomputeModes(request)) {
  const auto& samples = request.samples;
  order_.resize(samples.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::sort(order_.begin(), order_.end(), [&](int a, int b) {
    if (samples[a].length != samples[b].length) {
      return samples[a].length > samples[b].length;
    }
    return samples[a].id < samples[b].id;
  });
  // In order: every level reads them all.
  std::vector<Sample> sorted;
  sorted.reserve(samples.size());
  for (int index : order_) sorted.push_back(samples[index]);
  for (const Sample& sample : sorted) lengths_.push_back(sample.length);
  const size_t cells = num_levels() * samples.size();
  for (int mode = 0; mode < num_modes(); ++mode) {
    first_level_.insert(first_level_.end(), samples.size(), end_level(mode));
  }
  tokens_.resize(cells);
  capacity_tokens_.resize(num_levels());
  fixed_ns_.resize(num_levels());
  sample_ns_.resize(cells);
  rank_ns_.resize(cells);
  alone_ns_.resize(cells);
  for (int level = num_levels() - 1; level >= 0; --level) {
    FillLevel(request, sorted, costs.WithRecompute(recompute_layers(level)),
              level);
  }
  for (int i = 0; i < num_samples(); ++i) {
    cheapest_level_.push_back(FindBestLevel(i, INT64_MAX));
  }
}

void CostTable::FillLevel(const PlanRequest& request,
                          const std::vector<Sample>& sorted,
                          const CostModel& costs, int level) {
  const BlockClass& block_class = this->block_class(level);
  const int degree = block_class.degree;
  const int mode = level / num_degrees();
  const SequenceSplit split = SplitFor(request.model, degree);
  const int64_t tokens_per_rank = TokensPerRank(request, modes_[mode], degree);
  const int64_t fixed_ns = costs.FixedNs(block_class);
  const int64_t speed = FastestBlockSpeed(request, costs, block_class);
  capacity_tokens_[level] = tokens_per_rank * degree;
  fixed_ns_[level] = fixed_ns;
  for (int i = 0; i < num_samples(); ++i) {
    const size_t cell = level * order_.size() + i;
    const Sample& sample = sorted[i];
    if (!CanShare(split, sample)) {
      tokens_[cell] = kNoRoom;
      sample_ns_[cell] = kTooLongNs;
      rank_ns_[cell] = alone_ns_[cell] = kForever;
      continue;
    }
    const BatchSize size = SizeOf(request.model, split, sample);
    tokens_[cell] = size.tokens;
    if (Allows(level, i)) first_level_[mode * order_.size() + i] = level;
    sample_ns_[cell] = costs.SampleNs(block_class, size);
    const int128 share = int128{fixed_ns} * size.tokens;
    rank_ns_[cell] =
        degree * sample_ns_[cell] +
        static_cast<int64_t>(share / std::max<int64_t>(1, tokens_per_rank));
    alone_ns_[cell] = CostModel::AtSpeed(fixed_ns + sample_ns_[cell], speed);
  }
}

int CostTable::BestLevel(int i, int64_t limit_ns) const {
  const int cheapest = cheapest_level_[i];
  if (cheapest < 0 || alone_ns(cheapest, i) <= limit_ns) return cheapest;
  return FindBestLevel(i, limit_ns);
}

int CostTable::FindBestLevel(int i, int64_t limit_ns) const {
  int best = -1;
  for (int mode = 0; mode < num_modes(); ++mode) {
    for (int level = first_level(i, mode); level < end_level(mode); ++level) {
      if (!Allows(level, i) || alone_ns(level, i) > limit_ns) continue;
      if (best < 0 || rank_ns(level, i) < rank_ns(best, i)) best = level;
    }
  }
  return best;
}

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
