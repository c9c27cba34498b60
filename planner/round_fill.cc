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
    : table_(table), num_ranks_(num_ranks) {
  for (int mode = 0; mode < table.num_modes(); ++mode) {
    for (int item = 0; item < table.num_samples(); ++item) {
      Least least;
      for (int k = table.first_level(item, mode); k < table.end_level(mode);
           ++k) {
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
  const int first = table_.first_level(item, rule_.mode);
  const int end = table_.end_level(rule_.mode);
  auto fits = [&](int level) {
    return table_.degree(level) <= free_ranks_ &&
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
