#include "planner/round_segments.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace evenstep::planner {
namespace {

constexpr int kNumQuantiles = 40;  // of tokens, and of work
constexpr int kNumFirstItems = 8;  // each a boundary of its own
constexpr int kMaxIdleLimits = 5;  // limits in a row that reach no further
constexpr int kMaxLimits = 120;
constexpr int kExtraRounds = 8;  // tried above what memory forces
constexpr int kMaxForcedRounds = 24;
constexpr int kMaxItems = 2048;
constexpr int kMaxChains = 24;
constexpr int64_t kForever = INT64_MAX / 4;

int64_t NextLimit(int64_t limit_ns) { return limit_ns + limit_ns / 16 + 1; }

// The first, a middle one and the last.
std::vector<int> FewModes(const CostTable& table) {
  const int last = table.num_modes() - 1;
  std::vector<int> modes = {0, last / 2, last};
  modes.erase(std::unique(modes.begin(), modes.end()), modes.end());
  return modes;
}

// Items at which a round may begin: the first few, and quantiles.
std::vector<int> Boundaries(const CostTable& table) {
  const int num_items = table.num_samples();
  // Every mode multiplies the fills.
  const int num_quantiles =
      kNumQuantiles / static_cast<int>(FewModes(table).size());
  std::vector<int> boundaries;
  for (int i = 0; i < std::min(num_items, kNumFirstItems); ++i) {
    boundaries.push_back(i);
  }
  auto add_quantiles = [&](auto weight) {
    int128 total = 1;
    for (int i = 0; i < num_items; ++i) total += weight(i);
    int128 sum = 0;
    for (int i = 0, next = 1; i < num_items; ++i) {
      if (sum * num_quantiles >= total * next) {
        boundaries.push_back(i);
        while (sum * num_quantiles >= total * next) ++next;
      }
      sum += weight(i);
    }
  };
  add_quantiles([&](int i) { return table.length(i); });
  add_quantiles(
      [&](int i) { return table.rank_ns(table.BestLevel(i, INT64_MAX), i); });
  boundaries.push_back(num_items);
  std::sort(boundaries.begin(), boundaries.end());
  boundaries.erase(std::unique(boundaries.begin(), boundaries.end()),
                   boundaries.end());
  return boundaries;
}

class SegmentTable {
 public:
  SegmentTable(const CostTable& table, RoundFiller& filler)
      : table_(table),
        filler_(filler),
        items_(table.num_samples()),
        boundaries_(Boundaries(table)) {
    std::iota(items_.begin(), items_.end(), 0);
    peaks_ns_.assign(size() * size(), kForever);
    limits_ns_.assign(size() * size(), kForever);
    for (int from = 0; from + 1 < size(); ++from) FillFrom(from);
  }

  int size() const { return static_cast<int>(boundaries_.size()); }
  // Of a round that holds the items between two boundaries.
  int64_t peak_ns(int from, int to) const {
    return peaks_ns_[from * size() + to];
  }

  Round MakeRound(int from, int to) {
    Round round;
    Multifit(Items(boundaries_[from], boundaries_[to]), table_,
             limits_ns_[from * size() + to] + 1, filler_, round);
    return round;
  }

 private:
  absl::Span<const int> Items(int begin, int end) const {
    return absl::MakeConstSpan(items_).subspan(begin, end - begin);
  }

  void FillFrom(int from) {
    const int num_items = table_.num_samples();
    const int begin = boundaries_[from];
    int64_t limit_ns = filler_.AloneNs(begin);
    int furthest = from;
    int idle = 0;
    for (int k = 0; k < kMaxLimits && idle < kMaxIdleLimits; ++k) {
      const int reached = furthest;
      for (int mode : FewModes(table_)) {
        for (int floor : FloorLevels(table_)) {
          const int end = begin + filler_.FillPrefix(Items(begin, num_items),
                                                     {limit_ns, floor, mode});
          Record(from, end, limit_ns, furthest);
        }
      }
      if (furthest == size() - 1) break;
      idle = furthest > reached ? 0 : idle + 1;
      limit_ns = NextLimit(limit_ns);
    }
  }

  // A fill up to item `end` also holds every shorter segment.
  void Record(int from, int end, int64_t limit_ns, int& furthest) {
    const int64_t peak_ns = filler_.PeakNs();
    int to = static_cast<int>(
                 std::upper_bound(boundaries_.begin(), boundaries_.end(), end) -
                 boundaries_.begin()) -
             1;
    furthest = std::max(furthest, to);
    for (; to > from; --to) {
      int64_t& cell = peaks_ns_[from * size() + to];
      if (cell <= peak_ns) break;
      cell = peak_ns;
      limits_ns_[from * size() + to] = limit_ns;
    }
  }

  const CostTable& table_;
  RoundFiller& filler_;
  std::vector<int> items_;
  std::vector<int> boundaries_;
  std::vector<int64_t> peaks_ns_;
  std::vector<int64_t> limits_ns_;  // at which a fill reached so far
};

// Least sum of peaks by number of rounds and boundary reached.
class Cuts {
 public:
  Cuts(const SegmentTable& segments, int max_rounds)
      : size_(segments.size()),
        cost_ns_((max_rounds + 1) * size_, kForever),
        came_from_((max_rounds + 1) * size_, -1) {
    cost_ns_[0] = 0;
    for (int rounds = 0; rounds < max_rounds; ++rounds) {
      for (int from = 0; from < size_; ++from) {
        if (cost_ns(rounds, from) == kForever) continue;
        for (int to = from + 1; to < size_; ++to) {
          const int64_t peak_ns = segments.peak_ns(from, to);
          if (peak_ns == kForever) break;
          Offer(rounds, from, to, cost_ns(rounds, from) + peak_ns);
        }
      }
    }
  }

  int64_t TotalNs(int rounds) const { return cost_ns(rounds, size_ - 1); }
  int CameFrom(int rounds, int to) const {
    return came_from_[rounds * size_ + to];
  }

 private:
  int64_t cost_ns(int rounds, int at) const {
    return cost_ns_[rounds * size_ + at];
  }
  void Offer(int rounds, int from, int to, int64_t ns) {
    const int cell = (rounds + 1) * size_ + to;
    if (cost_ns_[cell] <= ns) return;
    cost_ns_[cell] = ns;
    came_from_[cell] = from;
  }

  int size_;
  std::vector<int64_t> cost_ns_;
  std::vector<int> came_from_;
};

int RoundsThatMemoryForces(const CostTable& table, int num_ranks) {
  int64_t tokens = 0;
  for (int i = 0; i < table.num_samples(); ++i) tokens += table.length(i);
  const int128 capacity = int128{table.capacity_tokens(0)} * num_ranks;
  return static_cast<int>((tokens + capacity - 1) / capacity);
}

Rounds Retrace(SegmentTable& segments, const Cuts& cuts, int num_rounds) {
  Rounds rounds;
  int to = segments.size() - 1;
  for (int k = num_rounds; k > 0; --k) {
    const int from = cuts.CameFrom(k, to);
    rounds.push_back(segments.MakeRound(from, to));
    to = from;
  }
  std::reverse(rounds.begin(), rounds.end());
  return rounds;
}

// One limit for every round that allows it: for steps of very many rounds.
Rounds FillOneByOne(const CostTable& table, int64_t limit_ns,
                    RoundFiller& filler) {
  std::vector<int> items(table.num_samples());
  std::iota(items.begin(), items.end(), 0);
  absl::Span<const int> left = absl::MakeConstSpan(items);
  Rounds rounds;
  while (!left.empty()) {
    FillRule best{std::max(limit_ns, filler.AloneNs(left[0])), 0};
    int reach = 0;
    for (int mode : FewModes(table)) {
      for (int floor : FloorLevels(table)) {
        const FillRule rule{best.limit_ns, floor, mode};
        const int end = filler.FillPrefix(left, rule);
        if (end <= reach) continue;
        reach = end;
        best = rule;
      }
    }
    filler.FillPrefix(left.subspan(0, reach), best);
    rounds.push_back(filler.TakeRound());
    left = left.subspan(reach);
  }
  return rounds;
}

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

}  // namespace

std::vector<Rounds> CutIntoRounds(const CostTable& table, size_t count,
                                  RoundFiller& filler) {
  const int forced = RoundsThatMemoryForces(table, filler.num_ranks());
  std::vector<Rounds> solutions;
  if (forced > kMaxForcedRounds || table.num_samples() > kMaxItems) {
    solutions.push_back(FillManyRounds(table, filler));
    return solutions;
  }
  SegmentTable segments(table, filler);
  const int max_rounds =
      std::min(segments.size() - 1, 2 * forced + kExtraRounds);
  const Cuts cuts(segments, max_rounds);
  std::vector<int> counts(max_rounds);
  std::iota(counts.begin(), counts.end(), 1);
  std::stable_sort(counts.begin(), counts.end(), [&](int a, int b) {
    return cuts.TotalNs(a) < cuts.TotalNs(b);
  });
  for (int num_rounds : counts) {
    if (solutions.size() == count || cuts.TotalNs(num_rounds) == kForever)
      break;
    solutions.push_back(Retrace(segments, cuts, num_rounds));
  }
  if (solutions.empty()) solutions.push_back(FillManyRounds(table, filler));
  return solutions;
}

}  // namespace evenstep::planner
