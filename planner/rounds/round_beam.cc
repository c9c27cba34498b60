#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/rounds/round_search.h"

namespace evenstep::planner {
namespace {

constexpr size_t kWidth = 4;        // divisions carried on
constexpr size_t kMaxChildren = 4;  // of one division
constexpr int kMaxRounds = 48;
constexpr int kNumAnchors = 3;          // levels of the longest sample left
constexpr int64_t kStepPerMille = 150;  // from limit to limit
constexpr int kMaxSteps = 10;
constexpr size_t kNumRefined = 2;  // best limits that get closer neighbours
// Tokens of a round that hopes rest on, in thousandths of what memory holds: of
// the last rounds together, and of a round on average.
constexpr int64_t kFullPerMille = 970;
constexpr int64_t kUsualPerMille = 900;

// The rounds so far; all that follows from them is kept beside.
struct Division {
  std::vector<FillRule> rules;
  int64_t spent_ns = 0;
  int64_t estimate_ns = 0;  // with what the samples left will cost at least
  std::vector<int> left;    // items, ascending
};

using Divisions = std::vector<Division>;

// Most promising first, no two of the same estimate.
void Rank(Divisions& divisions) {
  std::stable_sort(divisions.begin(), divisions.end(),
                   [](const Division& a, const Division& b) {
                     return a.estimate_ns < b.estimate_ns;
                   });
  const auto twins = std::unique(divisions.begin(), divisions.end(),
                                 [](const Division& a, const Division& b) {
                                   return a.estimate_ns == b.estimate_ns;
                                 });
  divisions.erase(twins, divisions.end());
}

class Beam {
 public:
  Beam(const CostTable& table, RoundFiller& filler)
      : table_(table),
        filler_(filler),
        floors_(FloorLevels(table)),
        modes_(FewModes(table)) {}

  std::vector<Rounds> Search(size_t count) {
    Division start;
    start.left.resize(table_.num_samples());
    std::iota(start.left.begin(), start.left.end(), 0);
    Divisions kept = {std::move(start)};
    for (int round = 0; round < kMaxRounds && !kept.empty(); ++round) {
      Divisions next;
      for (const Division& division : kept) Expand(division, next);
      kept = Keep(std::move(next));
    }
    Rank(done_);
    std::vector<Rounds> found;
    for (const Division& division : done_) {
      if (found.size() == count) break;
      found.push_back(Retrace(division));
    }
    return found;
  }

 private:
  Divisions Keep(Divisions divisions) {
    Rank(divisions);
    Divisions kept;
    for (Division& division : divisions) {
      if (division.left.empty()) {
        done_.push_back(std::move(division));
      } else if (kept.size() < kWidth) {
        kept.push_back(std::move(division));
      }
    }
    return kept;
  }

  void Expand(const Division& division, Divisions& next) {
    Divisions children;
    for (int mode : modes_) {
      for (int64_t limit_ns : LimitsFor(division.left[0], mode)) {
        for (int floor : floors_) {
          Try(division, {limit_ns, floor, mode}, children);
        }
      }
    }
    Rank(children);
    Refine(division, children);
    Rank(children);
    if (children.size() > kMaxChildren) children.resize(kMaxChildren);
    for (Division& child : children) next.push_back(std::move(child));
  }

  // Limits a third of a step apart around the best.
  void Refine(const Division& division, Divisions& children) {
    const size_t num_refined = std::min(kNumRefined, children.size());
    for (size_t k = 0; k < num_refined; ++k) {
      FillRule rule = children[k].rules.back();
      const int64_t third_ns = rule.limit_ns / 3000 * kStepPerMille;
      const int64_t middle_ns = rule.limit_ns;
      for (int64_t thirds : {-1, 1, 2}) {
        rule.limit_ns = middle_ns + thirds * third_ns;
        Try(division, rule, children);
      }
    }
  }

  // Times at which the longest sample left ends exactly, the time at which
  // samples like it fill memory, and steps in between.
  std::vector<int64_t> LimitsFor(int first, int mode) const {
    std::vector<int64_t> limits;
    const int narrowest = table_.first_level(first, mode);
    const int end = table_.end_level(mode);
    if (narrowest >= end) return limits;
    for (int k = narrowest; k < std::min(end, narrowest + kNumAnchors); ++k) {
      if (!table_.Allows(k, first)) continue;
      limits.push_back(table_.fixed_ns(k) + table_.sample_ns(k, first));
    }
    limits.push_back(
        table_.fixed_ns(narrowest) +
        static_cast<int64_t>(int128{table_.sample_ns(narrowest, first)} *
                             table_.capacity_tokens(narrowest) /
                             table_.length(first)));
    const int64_t most_ns = *std::max_element(limits.begin(), limits.end());
    int64_t limit_ns = filler_.AloneNs(first);
    for (int k = 0; k < kMaxSteps && limit_ns <= most_ns + most_ns / 3; ++k) {
      limit_ns += limit_ns / 1000 * kStepPerMille + 1;
      limits.push_back(limit_ns);
    }
    std::sort(limits.begin(), limits.end());
    limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
    return limits;
  }

  void Try(const Division& division, const FillRule& rule,
           Divisions& children) {
    Division filled;
    filler_.FillAny(division.left, rule, filled.left);
    const bool holds_longest =
        filled.left.empty() || filled.left[0] != division.left[0];
    if (!holds_longest) return;
    filled.spent_ns = division.spent_ns + filler_.PeakNs();
    filled.estimate_ns = filled.spent_ns + LeastNs(filled.left);
    if (filled.estimate_ns >= best_ns_) return;
    if (filled.left.empty()) best_ns_ = filled.estimate_ns;
    filled.rules = division.rules;
    filled.rules.push_back(rule);
    children.push_back(std::move(filled));
  }

  // What the items will cost if all goes well.
  int64_t LeastNs(const std::vector<int>& items) const {
    int64_t rank_ns = 0;
    int64_t tokens = 0;
    for (int item : items) {
      rank_ns += filler_.RankNs(item);
      tokens += table_.length(item);
    }
    const int64_t fixed_ns = table_.fixed_ns(0);
    const int128 held = int128{MostTokens()} * filler_.num_ranks();
    const auto num_rounds = static_cast<int64_t>(
        (int128{tokens} * 1000 + held * kFullPerMille - 1) /
        (held * kFullPerMille));
    const auto usual_ns = static_cast<int64_t>(
        int128{tokens} * 1000 * fixed_ns / (held * kUsualPerMille));
    return std::max(num_rounds * fixed_ns, usual_ns) +
           rank_ns / filler_.num_ranks();
  }

  // Of one rank, in the mode that holds most.
  int64_t MostTokens() const {
    int64_t most = 1;
    for (int mode = 0; mode < table_.num_modes(); ++mode) {
      most =
          std::max(most, table_.capacity_tokens(mode * table_.num_degrees()));
    }
    return most;
  }

  Rounds Retrace(const Division& division) {
    std::vector<int> items(table_.num_samples());
    std::iota(items.begin(), items.end(), 0);
    Rounds rounds;
    std::vector<int> left;
    for (const FillRule& rule : division.rules) {
      filler_.FillAny(items, rule, left);
      rounds.push_back(filler_.TakeRound());
      items.swap(left);
    }
    return rounds;
  }

  const CostTable& table_;
  RoundFiller& filler_;
  const std::vector<int> floors_;
  const std::vector<int> modes_;
  Divisions done_;
  int64_t best_ns_ = INT64_MAX;  // of those that are done
};

int64_t RoundsThatMemoryForces(const CostTable& table, int num_ranks) {
  int128 tokens = 0;
  for (int i = 0; i < table.num_samples(); ++i) tokens += table.length(i);
  const int128 capacity = int128{table.capacity_tokens(0)} * num_ranks;
  return static_cast<int64_t>((tokens + capacity - 1) / capacity);
}

}  // namespace

std::vector<Rounds> SearchBeam(const CostTable& table, size_t count,
                               RoundFiller& filler) {
  if (RoundsThatMemoryForces(table, filler.num_ranks()) > kMaxRounds / 2) {
    return {};
  }
  return Beam(table, filler).Search(count);
}

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
