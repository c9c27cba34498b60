// FlexSP's heuristic, as in ByteScale, restated (reference_rules.h).

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "planner/policies/reference_rules.h"

namespace evenstep::planner {
namespace {

// The group with the least room that suffices takes an item; of like ones the
// first.
class BestFit {
 public:
  explicit BestFit(const CostTable& table)
      : table_(table),
        levels_(PowerOfTwoLevels(table)),
        rooms_(table.num_levels()) {}

  std::vector<RoundGroup> Decreasing() {
    for (int item = 0; item < table_.num_samples(); ++item) {
      const int group = GroupFor(item);
      AddItem(table_, item, groups_[group]);
      rooms_[groups_[group].level].insert({RoomOf(group), group});
    }
    return std::move(groups_);
  }

 private:
  using Room = std::pair<int64_t, int>;  // tokens, group

  int64_t RoomOf(int group) const {
    return table_.capacity_tokens(groups_[group].level) - groups_[group].tokens;
  }

  // Takes the group from the rooms.
  int GroupFor(int item) {
    Room best = {INT64_MAX, -1};
    for (int level : levels_) {
      const auto found =
          rooms_[level].lower_bound({table_.tokens(level, item), 0});
      if (found != rooms_[level].end()) best = std::min(best, *found);
    }
    if (best.second >= 0) {
      rooms_[groups_[best.second].level].erase(best);
      return best.second;
    }
    groups_.emplace_back().level = SmallestLevel(table_, levels_, item);
    return static_cast<int>(groups_.size()) - 1;
  }

  const CostTable& table_;
  const std::vector<int> levels_;
  std::vector<std::set<Room>> rooms_;  // by level
  std::vector<RoundGroup> groups_;
};

// The slowest group of a round grows while that makes it faster.
void GrowSlowest(const CostTable& table, int num_ranks, Round& round) {
  const std::vector<int> levels = PowerOfTwoLevels(table);
  while (true) {
    Refresh(table, round);
    RoundGroup& slowest = *std::max_element(
        round.groups.begin(), round.groups.end(),
        [](const RoundGroup& a, const RoundGroup& b) { return a.ns < b.ns; });
    const int free_ranks =
        num_ranks - round.num_ranks + table.degree(slowest.level);
    RoundGroup best = slowest;
    for (int level : levels) {
      if (level <= slowest.level || table.degree(level) > free_ranks ||
          !CanSetLevel(table, level, slowest)) {
        continue;
      }
      RoundGroup grown = slowest;
      SetLevel(table, level, grown);
      if (grown.ns < best.ns) best = std::move(grown);
    }
    if (best.ns == slowest.ns) return;
    slowest = std::move(best);
  }
}

}  // namespace

std::vector<Placement> PlaceBestFitGrowth(const PolicyInput& input,
                                          int64_t& work_left) {
  const int num_ranks = input.request.cluster.num_ranks();
  work_left -= input.table.num_samples();
  if (work_left <= 0) return {};
  std::vector<RoundGroup> left = BestFit(input.table).Decreasing();
  std::stable_sort(
      left.begin(), left.end(),
      [](const RoundGroup& a, const RoundGroup& b) { return a.ns > b.ns; });
  Rounds rounds;
  while (!left.empty()) {
    work_left -= static_cast<int64_t>(left.size());
    if (work_left <= 0) return {};
    Round& round = rounds.emplace_back();
    std::vector<RoundGroup> next;
    for (RoundGroup& group : left) {
      const int degree = input.table.degree(group.level);
      const bool fits = round.num_ranks + degree <= num_ranks;
      if (fits) round.num_ranks += degree;
      (fits ? round.groups : next).push_back(std::move(group));
    }
    left = std::move(next);
    GrowSlowest(input.table, num_ranks, round);
  }
  return ToPlacements(input, std::move(rounds));
}

}  // namespace evenstep::planner
