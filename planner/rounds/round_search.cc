#include "planner/rounds/round_search.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace evenstep::planner {
namespace {

// Limits tried for a round, in thousandths of its peak.
constexpr std::array<int64_t, 6> kShrinkPerMille = {970, 930, 880,
                                                    820, 700, 550};

// Limits tried for the first of two rounds that are split anew.
constexpr std::array<int64_t, 8> kResplitPerMille = {1000, 1050, 950, 1020,
                                                     980,  1120, 880, 1250};

class Search {
 public:
  Search(const CostTable& table, int64_t stop_ns, int64_t& work_left,
         RoundFiller& filler)
      : table_(table),
        stop_ns_(stop_ns),
        work_left_(work_left),
        filler_(filler) {}

  // Before the first call below, and whenever others changed the rounds.
  void CountTotal(const Rounds& rounds) { total_ns_ = TotalNs(rounds); }

  bool IsDone() const { return work_left_ <= 0 || total_ns_ <= stop_ns_; }

  bool DissolveEach(Rounds& rounds) {
    bool improved = false;
    for (size_t r = 0; r < rounds.size() && !IsDone(); ++r) {
      if (Shrink(r, 0, rounds)) improved = true;
    }
    return improved;
  }

  bool ShrinkEach(Rounds& rounds) {
    bool improved = false;
    for (int64_t per_mille : kShrinkPerMille) {
      for (size_t r = 0; r < rounds.size() && !IsDone(); ++r) {
        if (Shrink(r, per_mille, rounds)) improved = true;
      }
    }
    return improved;
  }

  bool ResplitEach(Rounds& rounds) {
    bool improved = false;
    for (int64_t per_mille : kResplitPerMille) {
      for (size_t r = 0; r < rounds.size(); ++r) {
        for (size_t q = 0; q < rounds.size() && !IsDone(); ++q) {
          if (r == q || rounds[r].groups.empty() || rounds[q].groups.empty()) {
            continue;
          }
          if (Resplit(r, q, per_mille, rounds)) improved = true;
        }
      }
    }
    return improved;
  }

  // Fills a round anew if that lowers its peak.
  void Refill(Round& round) {
    Round better;
    const int64_t before = filler_.work();
    if (Multifit(round.Items(), table_, round.peak_ns, filler_, better)) {
      round = std::move(better);
    }
    work_left_ -= filler_.work() - before;
  }

  void RefillAll(Rounds& rounds) {
    for (Round& round : rounds) Refill(round);
  }

 private:
  // A limit with every mode and floor.
  std::vector<FillRule> Rules(int64_t limit_ns) const {
    std::vector<FillRule> rules;
    for (int mode = 0; mode < table_.num_modes(); ++mode) {
      for (int floor : FloorLevels(table_)) {
        rules.push_back({limit_ns, floor, mode});
      }
    }
    return rules;
  }

  // Gives round `r` a lower limit; true, and `rounds` changed, if the sum of
  // peaks falls.
  bool Shrink(size_t r, int64_t per_mille, Rounds& rounds) {
    const int64_t limit_ns = rounds[r].peak_ns / 1000 * per_mille;
    const std::vector<int> items = rounds[r].Items();
    bool improved = false;
    for (const FillRule& rule : Rules(limit_ns)) {
      std::vector<int> left;
      const int64_t before = filler_.work();
      filler_.FillAny(items, rule, left);
      work_left_ -= filler_.work() - before;
      Rounds trial = rounds;
      work_left_ -= table_.num_samples();
      trial[r] = filler_.TakeRound();
      const bool anew = limit_ns == 0;
      if (Rehouse(left, r, anew, trial) && TotalNs(trial) < total_ns_) {
        rounds = std::move(trial);
        CountTotal(rounds);
        improved = true;
        break;
      }
      if (limit_ns == 0 || work_left_ <= 0) break;
    }
    return improved;
  }

  // Pools the items of two rounds, fills the first anew within a limit relative
  // to its peak, and the second with what is left.
  bool Resplit(size_t first, size_t second, int64_t per_mille, Rounds& rounds) {
    const int64_t sum_ns = rounds[first].peak_ns + rounds[second].peak_ns;
    const int64_t limit_ns = rounds[first].peak_ns / 1000 * per_mille;
    std::vector<int> items = rounds[first].Items();
    const std::vector<int> others = rounds[second].Items();
    const auto middle = items.insert(items.end(), others.begin(), others.end());
    std::inplace_merge(items.begin(), middle, items.end());
    bool improved = false;
    for (const FillRule& rule : Rules(limit_ns)) {
      std::vector<int> left;
      const int64_t before = filler_.work();
      filler_.FillAny(items, rule, left);
      const int64_t below_ns = sum_ns - filler_.PeakNs();
      if (left.empty() || filler_.LeastLimitNs(left) < below_ns) {
        Round filled = filler_.TakeRound();
        Round rest;
        if (left.empty() || Multifit(left, table_, below_ns, filler_, rest)) {
          rounds[first] = std::move(filled);
          rounds[second] = std::move(rest);
          improved = true;
        }
      }
      work_left_ -= filler_.work() - before;
      if (improved || work_left_ <= 0) break;
    }
    if (!improved) return false;
    MoveAndSwap(table_, filler_.num_ranks(), work_left_, rounds);
    CountTotal(rounds);
    return true;
  }

  bool Rehouse(const std::vector<int>& items, size_t from, bool anew,
               Rounds& rounds) {
    const std::vector<int64_t> peaks_before = Peaks(rounds);
    for (int item : items) {
      work_left_ -= static_cast<int64_t>(rounds.size());
      if (InsertItem(table_, filler_.num_ranks(), item, static_cast<int>(from),
                     rounds))
        continue;
      if (!anew || !InsertAnew(item, from, rounds)) return false;
    }
    for (size_t k = 0; k < rounds.size(); ++k) {
      if (rounds[k].peak_ns > peaks_before[k]) Refill(rounds[k]);
    }
    MoveAndSwap(table_, filler_.num_ranks(), work_left_, rounds);
    return true;
  }

  static std::vector<int64_t> Peaks(const Rounds& rounds) {
    std::vector<int64_t> peaks_ns;
    peaks_ns.reserve(rounds.size());
    for (const Round& round : rounds) peaks_ns.push_back(round.peak_ns);
    return peaks_ns;
  }

  // No group has room for it: a round is filled anew with it, that whose peak
  // rises least.
  bool InsertAnew(int item, size_t except, Rounds& rounds) {
    Round best;
    int best_round = -1;
    int64_t best_rise_ns = INT64_MAX;
    const int64_t before = filler_.work();
    for (size_t k = 0; k < rounds.size(); ++k) {
      if (k == except) continue;
      std::vector<int> items = rounds[k].Items();
      items.insert(std::lower_bound(items.begin(), items.end(), item), item);
      const int64_t most_ns = rounds[k].peak_ns + rounds[except].peak_ns;
      Round filled;
      if (!Multifit(items, table_, most_ns, filler_, filled)) continue;
      const int64_t rise_ns = filled.peak_ns - rounds[k].peak_ns;
      if (rise_ns >= best_rise_ns) continue;
      best_rise_ns = rise_ns;
      best_round = static_cast<int>(k);
      best = std::move(filled);
    }
    work_left_ -= filler_.work() - before;
    if (best_round < 0) return false;
    rounds[best_round] = std::move(best);
    return true;
  }

  const CostTable& table_;
  const int64_t stop_ns_;
  int64_t& work_left_;
  RoundFiller& filler_;
  int64_t total_ns_ = INT64_MAX;
};

}  // namespace

void RefillRounds(const CostTable& table, RoundFiller& filler, Rounds& rounds) {
  int64_t work_left = 0;
  Search(table, 0, work_left, filler).RefillAll(rounds);
}

void ImproveRounds(const CostTable& table, int64_t stop_ns, int64_t& work_left,
                   RoundFiller& filler, Rounds& rounds) {
  Search search(table, stop_ns, work_left, filler);
  search.RefillAll(rounds);
  MoveAndSwap(table, filler.num_ranks(), work_left, rounds);
  search.CountTotal(rounds);
  // The cheapest that still helps comes first.
  while (!search.IsDone()) {
    const bool dissolved = search.DissolveEach(rounds);
    const bool resplit = search.ResplitEach(rounds);
    if (!dissolved && !resplit && !search.ShrinkEach(rounds)) break;
    std::erase_if(rounds, [](const Round& r) { return r.groups.empty(); });
  }
}

}  // namespace evenstep::planner
