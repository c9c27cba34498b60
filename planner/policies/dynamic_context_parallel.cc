// Megatron-LM's dynamic context parallelism, restated (reference_rules.h).

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "planner/policies/reference_rules.h"

namespace evenstep::planner {
namespace {

// Sum of s^2 over the degree: all that this rule knows of costs.
struct Work {
  int128 squares = 0;
  int64_t degree = 1;

  friend bool operator<(const Work& a, const Work& b) {
    return a.squares * b.degree < b.squares * a.degree;
  }
};

class DynamicContextParallel {
 public:
  DynamicContextParallel(const PolicyInput& input, int64_t& work_left)
      : table_(input.table),
        num_ranks_(input.request.cluster.num_ranks()),
        levels_(PowerOfTwoLevels(input.table)),
        work_left_(work_left) {}

  // Unfinished if the work is used up.
  Rounds Place() {
    std::vector<int> left(table_.num_samples());
    std::iota(left.begin(), left.end(), 0);
    Rounds rounds;
    while (!left.empty() && work_left_ > 0) rounds.push_back(TakeRound(left));
    return rounds;
  }

 private:
  int128 SquareOf(int item) const {
    return int128{table_.length(item)} * table_.length(item);
  }
  Work WorkOf(const Round& round, size_t group) const {
    return {squares_[group], table_.degree(round.groups[group].level)};
  }

  Round TakeRound(std::vector<int>& left) {
    Round round;
    squares_.clear();
    std::vector<int> next;
    for (int item : left) {
      --work_left_;
      const int level = SmallestLevel(table_, levels_, item);
      const int group = GroupFor(item, level, round);
      if (group < 0) {
        next.push_back(item);
        continue;
      }
      squares_[group] += SquareOf(item);
      AddItem(table_, item, round.groups[group]);
    }
    left = std::move(next);
    GrowHeaviest(round);
    Refresh(table_, round);
    return round;
  }

  // While ranks are free a sample opens a group of its own; then the lightest
  // group with room takes it. -1 if none has.
  int GroupFor(int item, int level, Round& round) {
    if (round.num_ranks + table_.degree(level) > num_ranks_) {
      return Lightest(item, round);
    }
    round.num_ranks += table_.degree(level);
    round.groups.emplace_back().level = level;
    squares_.push_back(0);
    return static_cast<int>(squares_.size()) - 1;
  }

  int Lightest(int item, const Round& round) {
    work_left_ -= static_cast<int64_t>(round.groups.size());
    int lightest = -1;
    Work least;
    for (size_t k = 0; k < round.groups.size(); ++k) {
      const RoundGroup& group = round.groups[k];
      const int64_t tokens = group.tokens + table_.tokens(group.level, item);
      if (tokens > table_.capacity_tokens(group.level)) continue;
      Work work = WorkOf(round, k);
      work.squares += SquareOf(item);
      if (lightest >= 0 && !(work < least)) continue;
      least = work;
      lightest = static_cast<int>(k);
    }
    return lightest;
  }

  void GrowHeaviest(Round& round) {
    while (true) {
      int heaviest = -1;
      for (size_t k = 0; k < round.groups.size(); ++k) {
        if (!CanDouble(round, k)) continue;
        if (heaviest < 0 || WorkOf(round, heaviest) < WorkOf(round, k)) {
          heaviest = static_cast<int>(k);
        }
      }
      if (heaviest < 0) return;
      RoundGroup& group = round.groups[heaviest];
      const int degree = table_.degree(group.level);
      SetLevel(table_, LevelOfDegree(2 * degree), group);
      round.num_ranks += degree;
    }
  }

  bool CanDouble(const Round& round, size_t k) {
    const RoundGroup& group = round.groups[k];
    const int degree = table_.degree(group.level);
    if (round.num_ranks + degree > num_ranks_) return false;
    const int wider = LevelOfDegree(2 * degree);
    work_left_ -= static_cast<int64_t>(group.items.size());
    return wider >= 0 && CanSetLevel(table_, wider, group);
  }

  int LevelOfDegree(int degree) const {
    for (int level : levels_) {
      if (table_.degree(level) == degree) return level;
    }
    return -1;
  }

  const CostTable& table_;
  const int num_ranks_;
  const std::vector<int> levels_;
  int64_t& work_left_;
  std::vector<int128> squares_;  // by group of the round at hand
};

}  // namespace

std::vector<Placement> PlaceDynamicContextParallel(const PolicyInput& input,
                                                   int64_t& work_left) {
  Rounds rounds = DynamicContextParallel(input, work_left).Place();
  if (work_left <= 0) return {};
  return ToPlacements(input, std::move(rounds));
}

}  // namespace evenstep::planner
