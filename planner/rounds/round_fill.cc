#include "planner/rounds/round_fill.h"

#include <algorithm>

namespace evenstep::planner {
namespace {

constexpr int kHighFloor = 8;                 // ranks
constexpr int64_t kMultifitPrecision = 1000;  // parts of the limit

}  // namespace

std::vector<int> FloorLevels(const CostTable& table) {
  int level = 0;
  while (level < table.num_degrees() && table.degree(level) < kHighFloor) {
    ++level;
  }
  if (level == 0 || level == table.num_degrees()) return {0};
  return {0, level};
}

// Rounds grow long with recompute before they grow wide, so not every mode is
// worth a search.
std::vector<int> FewModes(const CostTable& table) {
  const int last = table.num_modes() - 1;
  std::vector<int> modes = {0, last / 2, last};
  modes.erase(std::unique(modes.begin(), modes.end()), modes.end());
  return modes;
}

RoundFiller::RoundFiller(const CostTable& table, int num_ranks)
    : table_(table), num_ranks_(num_ranks) {
  for (int k = 0; k < table.num_degrees(); ++k) {
    rooms_.emplace_back(num_ranks / table.degree(k));
    group_at_.emplace_back();
  }
  for (int mode = 0; mode < table.num_modes(); ++mode) {
    for (int item = 0; item < table.num_samples(); ++item) {
      Least least;
      for (int k = table.first_level(item, mode); k < table.end_level(mode);
           ++k) {
        if (!table.Allows(k, item) || table.degree(k) > num_ranks) continue;
        const int64_t ns = table.sample_ns(k, item);
        least.alone_ns = std::min(least.alone_ns, table.fixed_ns(k) + ns);
        least.rank_ns = std::min(least.rank_ns, ns * table.degree(k));
      }
      least_.push_back(least);
    }
  }
}

int64_t RoundFiller::AloneNs(int item) const {
  int64_t alone_ns = INT64_MAX;
  for (int mode = 0; mode < table_.num_modes(); ++mode) {
    alone_ns =
        std::min(alone_ns, least_[mode * table_.num_samples() + item].alone_ns);
  }
  return alone_ns;
}

int64_t RoundFiller::RankNs(int item) const {
  int64_t rank_ns = INT64_MAX;
  for (int mode = 0; mode < table_.num_modes(); ++mode) {
    rank_ns =
        std::min(rank_ns, least_[mode * table_.num_samples() + item].rank_ns);
  }
  return rank_ns;
}

int64_t RoundFiller::LeastLimitNs(absl::Span<const int> items, int mode) const {
  int64_t longest_ns = 0;
  int64_t rank_ns = 0;
  int64_t tokens = 0;
  for (int item : items) {
    const Least& least = least_[mode * table_.num_samples() + item];
    if (least.alone_ns == INT64_MAX) return INT64_MAX;
    longest_ns = std::max(longest_ns, least.alone_ns);
    rank_ns += least.rank_ns;
    tokens += table_.length(item);
  }
  const int narrowest = mode * table_.num_degrees();
  if (tokens / num_ranks_ > table_.capacity_tokens(narrowest)) return INT64_MAX;
  return std::max(longest_ns,
                  table_.fixed_ns(narrowest) + rank_ns / num_ranks_);
}

int64_t RoundFiller::LeastLimitNs(absl::Span<const int> items) const {
  int64_t least_ns = INT64_MAX;
  for (int mode = 0; mode < table_.num_modes(); ++mode) {
    least_ns = std::min(least_ns, LeastLimitNs(items, mode));
  }
  return least_ns;
}

void RoundFiller::Begin(const FillRule& rule) {
  rule_ = rule;
  free_ranks_ = num_ranks_;
  rejected_ = -1;
  for (int k : used_degrees_) {
    rooms_[k].Clear();
    group_at_[k].clear();
  }
  used_degrees_.clear();
  open_.clear();
  placed_.clear();
  group_of_.clear();
}

// Room only shrinks, so what is like the last that found none finds none.
bool RoundFiller::IsLikeRejected(int item) const {
  if (rejected_ < 0 || table_.length(item) != table_.length(rejected_)) {
    return false;
  }
  const int last = table_.num_levels() - 1;
  return table_.sample_ns(0, item) == table_.sample_ns(0, rejected_) &&
         table_.sample_ns(last, item) == table_.sample_ns(last, rejected_);
}

int RoundFiller::FindOpen(int item) const {
  const int first_level = rule_.mode * table_.num_degrees();
  for (int k : used_degrees_) {
    const int level = first_level + k;
    const int slot = rooms_[k].FindFirst(
        {table_.tokens(level, item), table_.sample_ns(level, item)});
    if (slot >= 0) return group_at_[k][slot];
  }
  return -1;
}

int RoundFiller::LevelToOpen(int item) const {
  const int first = table_.first_level(item, rule_.mode);
  const int end = table_.end_level(rule_.mode);
  auto fits = [&](int level) {
    return table_.degree(level) <= free_ranks_ && table_.Allows(level, item) &&
           table_.fixed_ns(level) + table_.sample_ns(level, item) <=
               rule_.limit_ns;
  };
  const int floor =
      std::max(first, rule_.mode * table_.num_degrees() + rule_.floor);
  for (int k = floor; k < end; ++k) {
    if (table_.degree(k) > free_ranks_) break;
    if (fits(k)) return k;
  }
  for (int k = std::min(floor, end) - 1; k >= first; --k) {
    if (fits(k)) return k;
  }
  return -1;
}

// A new group for the item, or -1.
int RoundFiller::OpenFor(int item) {
  const int level = LevelToOpen(item);
  if (level < 0) return -1;
  const int k = level % table_.num_degrees();
  free_ranks_ -= table_.degree(level);
  if (rooms_[k].num_slots() == 0) {
    used_degrees_.insert(
        std::lower_bound(used_degrees_.begin(), used_degrees_.end(), k), k);
  }
  const int slot = rooms_[k].Open(
      {table_.capacity_tokens(level), rule_.limit_ns - table_.fixed_ns(level)});
  const int group = static_cast<int>(open_.size());
  group_at_[k].push_back(group);
  open_.push_back({level, k, slot});
  return group;
}

bool RoundFiller::Place(int item) {
  ++work_;
  if (IsLikeRejected(item)) return false;
  int group = FindOpen(item);
  if (group < 0 && free_ranks_ > 0) group = OpenFor(item);
  if (group < 0) {
    rejected_ = item;
    return false;
  }
  const Open& open = open_[group];
  rooms_[open.degree_index].Take(
      open.slot,
      {table_.tokens(open.level, item), table_.sample_ns(open.level, item)});
  placed_.push_back(item);
  group_of_.push_back(group);
  return true;
}

int RoundFiller::FillPrefix(absl::Span<const int> items, const FillRule& rule) {
  Begin(rule);
  for (size_t k = 0; k < items.size(); ++k) {
    if (!Place(items[k])) return static_cast<int>(k);
  }
  return static_cast<int>(items.size());
}

void RoundFiller::FillAny(absl::Span<const int> items, const FillRule& rule,
                          std::vector<int>& left) {
  Begin(rule);
  left.clear();
  for (int item : items) {
    if (!Place(item)) left.push_back(item);
  }
}

int64_t RoundFiller::PeakNs() const {
  int64_t least_room_ns = rule_.limit_ns;
  for (const Open& open : open_) {
    least_room_ns =
        std::min(least_room_ns, rooms_[open.degree_index].at(open.slot).ns);
  }
  return rule_.limit_ns - least_room_ns;
}

Round RoundFiller::TakeRound() const {
  Round round;
  round.groups.resize(open_.size());
  for (size_t k = 0; k < open_.size(); ++k) {
    round.groups[k].level = open_[k].level;
  }
  for (size_t k = 0; k < placed_.size(); ++k) {
    AddItem(table_, placed_[k], round.groups[group_of_[k]]);
  }
  for (RoundGroup& group : round.groups) LowerMode(table_, group);
  Refresh(table_, round);
  return round;
}

bool Multifit(absl::Span<const int> items, const CostTable& table,
              int64_t below_ns, RoundFiller& filler, Round& round) {
  const int num_items = static_cast<int>(items.size());
  const std::vector<int> floors = FloorLevels(table);
  bool found = false;
  for (int mode = 0; mode < table.num_modes(); ++mode) {
    const int64_t least_ns = filler.LeastLimitNs(items, mode);
    for (int floor : floors) {
      if (least_ns >= below_ns) break;
      int64_t impossible_ns = least_ns - 1;
      // Only what beats the best so far is bisected.
      int64_t limit_ns = below_ns - 1;
      while (limit_ns > impossible_ns) {
        if (filler.FillPrefix(items, {limit_ns, floor, mode}) == num_items) {
          round = filler.TakeRound();
          below_ns = round.peak_ns;
          found = true;
        } else {
          impossible_ns = limit_ns;
          if (limit_ns == below_ns - 1) break;
        }
        if (below_ns - impossible_ns <= 1 + below_ns / kMultifitPrecision)
          break;
        limit_ns = impossible_ns + (below_ns - impossible_ns) / 2;
      }
    }
  }
  return found;
}

}  // namespace evenstep::planner
