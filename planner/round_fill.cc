#include "planner/round_fill.h"

#include <algorithm>

namespace evenstep::planner {
namespace {

constexpr int kWidestFloor = 16;              // ranks
constexpr int64_t kMultifitPrecision = 1000;  // parts of the limit

}  // namespace

std::vector<int> FloorLevels(const CostTable& table) {
  std::vector<int> levels;
  for (int degree = 1, level = 0; degree <= kWidestFloor; degree *= 2) {
    while (level < table.num_degrees() && table.degree(level) < degree) ++level;
    if (level == table.num_degrees()) break;
    if (levels.empty() || levels.back() != level) levels.push_back(level);
  }
  return levels;
}

RoundFiller::RoundFiller(const CostTable& table, int num_ranks)
    : table_(table),
      num_ranks_(num_ranks),
      alone_ns_(table.num_samples(), INT64_MAX),
      cheapest_ns_(table.num_samples(), INT64_MAX) {
  for (int item = 0; item < table.num_samples(); ++item) {
    for (int k = table.first_level(item); k < table.num_degrees(); ++k) {
      const int64_t ns = table.sample_ns(k, item);
      alone_ns_[item] = std::min(alone_ns_[item], table.fixed_ns(k) + ns);
      cheapest_ns_[item] = std::min(cheapest_ns_[item], ns * table.degree(k));
    }
  }
}

int64_t RoundFiller::LeastLimitNs(absl::Span<const int> items) const {
  int64_t longest_ns = 0;
  int64_t rank_ns = 0;
  for (int item : items) {
    longest_ns = std::max(longest_ns, alone_ns_[item]);
    rank_ns += cheapest_ns_[item];
  }
  return std::max(longest_ns, table_.fixed_ns(0) + rank_ns / num_ranks_);
}

void RoundFiller::Begin(const FillRule& rule) {
  rule_ = rule;
  free_ranks_ = num_ranks_;
  open_.clear();
  placed_.clear();
  group_of_.clear();
}

int RoundFiller::FindOpen(int item) const {
  const int64_t length = table_.length(item);
  int best = -1;
  for (size_t k = 0; k < open_.size(); ++k) {
    const Open& open = open_[k];
    if (open.room_tokens < length) continue;
    if (best >= 0 && (open.level > open_[best].level ||
                      (open.level == open_[best].level &&
                       open.room_tokens >= open_[best].room_tokens))) {
      continue;
    }
    if (open.room_ns < table_.sample_ns(open.level, item)) continue;
    best = static_cast<int>(k);
  }
  return best;
}

int RoundFiller::LevelToOpen(int item) const {
  const int first = table_.first_level(item);
  auto fits = [&](int level) {
    return table_.degree(level) <= free_ranks_ &&
           table_.fixed_ns(level) + table_.sample_ns(level, item) <=
               rule_.limit_ns;
  };
  const int floor = std::max(first, rule_.floor_level);
  for (int k = floor; k < table_.num_degrees(); ++k) {
    if (table_.degree(k) > free_ranks_) break;
    if (fits(k)) return k;
  }
  for (int k = std::min(floor, table_.num_degrees()) - 1; k >= first; --k) {
    if (fits(k)) return k;
  }
  return -1;
}

bool RoundFiller::Place(int item) {
  work_ += 1 + static_cast<int64_t>(open_.size()) / 4;
  int group = FindOpen(item);
  if (group < 0) {
    const int level = LevelToOpen(item);
    if (level < 0) return false;
    group = static_cast<int>(open_.size());
    free_ranks_ -= table_.degree(level);
    open_.push_back({level, table_.capacity_tokens(level),
                     rule_.limit_ns - table_.fixed_ns(level)});
  }
  open_[group].room_tokens -= table_.length(item);
  open_[group].room_ns -= table_.sample_ns(open_[group].level, item);
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
    least_room_ns = std::min(least_room_ns, open.room_ns);
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
  Refresh(table_, round);
  return round;
}

bool Multifit(absl::Span<const int> items, const CostTable& table,
              int64_t below_ns, RoundFiller& filler, Round& round) {
  const int num_items = static_cast<int>(items.size());
  const int64_t least_ns = filler.LeastLimitNs(items);
  bool found = false;
  for (int floor : FloorLevels(table)) {
    int64_t impossible_ns = least_ns - 1;
    // A floor that cannot do better than the best so far is not bisected.
    if (below_ns - 1 <= impossible_ns) break;
    if (filler.FillPrefix(items, {below_ns - 1, floor}) < num_items) continue;
    while (true) {
      Round filled = filler.TakeRound();
      below_ns = filled.peak_ns;
      round = std::move(filled);
      found = true;
      bool lower = false;
      while (below_ns - impossible_ns > 1 + below_ns / kMultifitPrecision) {
        const int64_t middle_ns =
            impossible_ns + (below_ns - impossible_ns) / 2;
        if (filler.FillPrefix(items, {middle_ns, floor}) == num_items) {
          lower = true;
          break;
        }
        impossible_ns = middle_ns;
      }
      if (!lower) break;
    }
  }
  return found;
}

}  // namespace evenstep::planner
