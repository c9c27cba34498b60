#include <algorithm>
#include <tuple>

#include "planner/rounds/round_search.h"

namespace evenstep::planner {
namespace {

constexpr int kNone = -1;

// An item of the longest group of `from` goes to group `group` of round `to`,
// or opens one there at `level`; item `back`, if any, comes in return.
struct Change {
  int64_t gain_ns = 0;
  int item = kNone;
  int to = 0;
  int group = kNone;
  int level = 0;
  int back = kNone;
};

class Mover {
 public:
  Mover(const CostTable& table, int num_ranks, int64_t& work_left,
        Rounds& rounds)
      : table_(table),
        num_ranks_(num_ranks),
        work_left_(work_left),
        rounds_(rounds) {}

  bool ImproveOnce(int from) {
    if (rounds_[from].groups.empty()) return false;
    from_ = from;
    FindLongest();
    best_ = Change();
    for (int item : Longest().items) {
      removed_ns_ =
          Longest().items.size() == 1
              ? 0
              : Longest().ns - table_.sample_ns(Longest().level, item);
      for (int to = 0; to < static_cast<int>(rounds_.size()); ++to) {
        TryRound(item, to);
      }
      if (work_left_ <= 0) break;
    }
    if (best_.item == kNone) return false;
    Apply();
    return true;
  }

 private:
  RoundGroup& Longest() { return rounds_[from_].groups[longest_]; }

  void FindLongest() {
    longest_ = 0;
    second_ns_ = 0;
    auto& groups = rounds_[from_].groups;
    for (int k = 1; k < static_cast<int>(groups.size()); ++k) {
      if (groups[k].ns > groups[longest_].ns) {
        second_ns_ = groups[longest_].ns;
        longest_ = k;
      } else {
        second_ns_ = std::max(second_ns_, groups[k].ns);
      }
    }
  }

  // The longest group would take `own_ns`, another of round `to` `other_ns`.
  int64_t Gain(int to, int64_t own_ns, int64_t other_ns) const {
    const int64_t before_ns = rounds_[from_].peak_ns;
    if (to == from_) {
      return before_ns - std::max({second_ns_, own_ns, other_ns});
    }
    const int64_t to_ns = rounds_[to].peak_ns;
    return before_ns - std::max(second_ns_, own_ns) -
           std::max<int64_t>(0, other_ns - to_ns);
  }

  void Offer(const Change& change) {
    if (change.gain_ns > best_.gain_ns) best_ = change;
  }

  void TryRound(int item, int to) {
    const Round& round = rounds_[to];
    for (int k = 0; k < static_cast<int>(round.groups.size()); ++k) {
      if (to == from_ && k == longest_) continue;
      TryGroup(item, to, k);
    }
    int free_ranks = num_ranks_ - round.num_ranks;
    if (to == from_ && Longest().items.size() == 1) {
      free_ranks += table_.degree(Longest().level);
    }
    for (int k = 0; k < table_.num_levels(); ++k) {
      if (table_.degree(k) > free_ranks || !table_.Allows(k, item)) continue;
      const int64_t ns = table_.fixed_ns(k) + table_.sample_ns(k, item);
      Offer({Gain(to, removed_ns_, ns), item, to, kNone, k, kNone});
    }
  }

  void TryGroup(int item, int to, int k) {
    --work_left_;
    const RoundGroup& group = rounds_[to].groups[k];
    const int64_t capacity = table_.capacity_tokens(group.level);
    const int64_t room =
        capacity - group.tokens - table_.tokens(group.level, item);
    const int64_t added_ns = group.ns + table_.sample_ns(group.level, item);
    if (room >= 0) {
      Offer({Gain(to, removed_ns_, added_ns), item, to, k, 0, kNone});
    }
    // What is given back is shorter, so it fits where `item` was, unless its
    // degree is capped.
    const int own_level = Longest().level;
    const int64_t own_ns = Longest().ns - table_.sample_ns(own_level, item);
    for (int back : group.items) {
      if (back <= item || room + table_.tokens(group.level, back) < 0 ||
          table_.tokens(own_level, back) > table_.tokens(own_level, item)) {
        continue;
      }
      Offer({Gain(to, own_ns + table_.sample_ns(own_level, back),
                  added_ns - table_.sample_ns(group.level, back)),
             item, to, k, 0, back});
    }
    work_left_ -= static_cast<int64_t>(group.items.size()) / 2;
  }

  void Apply() {
    Round& to = rounds_[best_.to];
    RemoveItem(table_, best_.item, Longest());
    if (best_.back != kNone) {
      RemoveItem(table_, best_.back, to.groups[best_.group]);
      AddItem(table_, best_.back, Longest());
    }
    if (best_.group == kNone) {
      to.groups.emplace_back();
      to.groups.back().level = best_.level;
      best_.group = static_cast<int>(to.groups.size()) - 1;
    }
    AddItem(table_, best_.item, to.groups[best_.group]);
    Refresh(table_, rounds_[from_]);
    Refresh(table_, to);
  }

  const CostTable& table_;
  const int num_ranks_;
  int64_t& work_left_;
  Rounds& rounds_;
  int from_ = 0;
  int longest_ = 0;         // group of round `from_`
  int64_t second_ns_ = 0;   // its next longest
  int64_t removed_ns_ = 0;  // the longest without the item at hand
  Change best_;
};

}  // namespace

void MoveAndSwap(const CostTable& table, int num_ranks, int64_t& work_left,
                 Rounds& rounds) {
  Mover mover(table, num_ranks, work_left, rounds);
  for (bool improved = true; improved && work_left > 0;) {
    improved = false;
    for (int from = 0; from < static_cast<int>(rounds.size()); ++from) {
      while (work_left > 0 && mover.ImproveOnce(from)) improved = true;
    }
  }
}

bool InsertItem(const CostTable& table, int num_ranks, int item, int except,
                Rounds& rounds) {
  // Rise of the peak, rank-time, room left.
  using Key = std::tuple<int64_t, int64_t, int64_t>;
  Key best_key{INT64_MAX, 0, 0};
  int best_round = kNone, best_group = kNone, best_level = 0;
  auto offer = [&](const Key& key, int round, int group, int level) {
    if (key >= best_key) return;
    best_key = key;
    best_round = round, best_group = group, best_level = level;
  };
  for (int r = 0; r < static_cast<int>(rounds.size()); ++r) {
    if (r == except) continue;
    const Round& round = rounds[r];
    auto rise = [&](int64_t ns) {
      return std::max<int64_t>(0, ns - round.peak_ns);
    };
    for (int k = 0; k < static_cast<int>(round.groups.size()); ++k) {
      const RoundGroup& group = round.groups[k];
      const int64_t room = table.capacity_tokens(group.level) - group.tokens -
                           table.tokens(group.level, item);
      if (room < 0) continue;
      const int64_t ns = table.sample_ns(group.level, item);
      offer({rise(group.ns + ns), ns * table.degree(group.level), room}, r, k,
            group.level);
    }
    for (int k = 0; k < table.num_levels(); ++k) {
      if (table.degree(k) > num_ranks - round.num_ranks ||
          !table.Allows(k, item)) {
        continue;
      }
      const int64_t ns = table.sample_ns(k, item);
      offer({rise(table.fixed_ns(k) + ns), ns * table.degree(k), INT64_MAX}, r,
            kNone, k);
    }
  }
  if (best_round == kNone) return false;
  Round& round = rounds[best_round];
  if (best_group == kNone) {
    best_group = static_cast<int>(round.groups.size());
    round.groups.emplace_back();
    round.groups.back().level = best_level;
    round.num_ranks += table.degree(best_level);
  }
  AddItem(table, item, round.groups[best_group]);
  round.peak_ns = std::max(round.peak_ns, round.groups[best_group].ns);
  return true;
}

}  // namespace evenstep::planner
