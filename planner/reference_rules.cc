#include "planner/reference_rules.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "planner/bounds.h"
#include "planner/cost_model.h"
#include "planner/degrees.h"
#include "planner/evaluate.h"
#include "planner/policies.h"
#include "planner/round_packing.h"
#include "planner/validate.h"

namespace evenstep::planner {
namespace {

bool IsPowerOfTwo(int number) { return (number & (number - 1)) == 0; }

// Levels of power-of-two degrees, and the widest, which may be needed to hold
// the longest sample.
std::vector<int> PowerOfTwoLevels(const CostTable& table) {
  std::vector<int> levels;
  for (int level = 0; level < table.num_degrees(); ++level) {
    if (IsPowerOfTwo(table.degree(level)) || level == table.num_degrees() - 1) {
      levels.push_back(level);
    }
  }
  return levels;
}

int SmallestLevel(const CostTable& table, const std::vector<int>& levels,
                  int item) {
  for (int level : levels) {
    if (table.Allows(level, item)) return level;
  }
  return table.first_level(item);
}

// The smallest that runs every item; -1 if none does.
int SmallestLevelForAll(const CostTable& table) {
  for (int level : PowerOfTwoLevels(table)) {
    int num_allowed = 0;
    while (num_allowed < table.num_samples() &&
           table.Allows(level, num_allowed)) {
      ++num_allowed;
    }
    if (num_allowed == table.num_samples()) return level;
  }
  return -1;
}

// Whether a group's items fit another level.
bool CanSetLevel(const CostTable& table, int level, const RoundGroup& group) {
  int64_t tokens = 0;
  for (int item : group.items) {
    if (!table.Allows(level, item)) return false;
    tokens += table.tokens(level, item);
  }
  return tokens <= table.capacity_tokens(level);
}

// Moves a group to another level; its time follows.
void SetLevel(const CostTable& table, int level, RoundGroup& group) {
  RoundGroup moved;
  moved.level = level;
  for (int item : group.items) AddItem(table, item, moved);
  group = std::move(moved);
}

// --- Dynamic context parallelism --------------------------------------------

class DynamicContextParallel {
 public:
  explicit DynamicContextParallel(const PolicyInput& input)
      : table_(input.table),
        num_ranks_(input.request.cluster.num_ranks()),
        levels_(PowerOfTwoLevels(input.table)) {}

  Rounds Place() {
    std::vector<int> left;
    for (int item = 0; item < table_.num_samples(); ++item) {
      left.push_back(item);
    }
    Rounds rounds;
    while (!left.empty()) rounds.push_back(TakeRound(left));
    return rounds;
  }

 private:
  // s^2 / degree: all that this rule knows of costs.
  double WorkOf(int item, int level) const {
    const auto length = static_cast<double>(table_.length(item));
    return length * length / table_.degree(level);
  }
  double WorkOf(const RoundGroup& group) const {
    double work = 0;
    for (int item : group.items) work += WorkOf(item, group.level);
    return work;
  }

  Round TakeRound(std::vector<int>& left) {
    Round round;
    std::vector<int> next;
    for (int item : left) {
      const int level = SmallestLevel(table_, levels_, item);
      RoundGroup* group = FindGroup(item, level, round);
      if (group == nullptr &&
          round.num_ranks + table_.degree(level) <= num_ranks_) {
        round.num_ranks += table_.degree(level);
        round.groups.emplace_back().level = level;
        group = &round.groups.back();
      }
      if (group == nullptr) {
        next.push_back(item);
        continue;
      }
      AddItem(table_, item, *group);
    }
    left = std::move(next);
    GrowHeaviest(round);
    Refresh(table_, round);
    return round;
  }

  // While ranks are free a sample opens a group of its own; then the lightest
  // group with room takes it.
  RoundGroup* FindGroup(int item, int level, Round& round) {
    if (round.num_ranks + table_.degree(level) <= num_ranks_) return nullptr;
    RoundGroup* lightest = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (RoundGroup& group : round.groups) {
      const int64_t tokens = group.tokens + table_.tokens(group.level, item);
      if (tokens > table_.capacity_tokens(group.level)) continue;
      const double work = WorkOf(group) + WorkOf(item, group.level);
      if (work >= least) continue;
      least = work;
      lightest = &group;
    }
    return lightest;
  }

  void GrowHeaviest(Round& round) {
    while (true) {
      RoundGroup* heaviest = nullptr;
      for (RoundGroup& group : round.groups) {
        const int degree = table_.degree(group.level);
        if (round.num_ranks + degree > num_ranks_) continue;
        const int wider = LevelOfDegree(2 * degree);
        if (wider < 0 || !CanSetLevel(table_, wider, group)) continue;
        if (heaviest == nullptr || WorkOf(group) > WorkOf(*heaviest)) {
          heaviest = &group;
        }
      }
      if (heaviest == nullptr) return;
      const int degree = table_.degree(heaviest->level);
      SetLevel(table_, LevelOfDegree(2 * degree), *heaviest);
      round.num_ranks += degree;
    }
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
};

std::vector<Placement> PlaceDynamicContextParallel(const PolicyInput& input) {
  return ToPlacements(input, DynamicContextParallel(input).Place());
}

// --- Karmarkar-Karp at a static degree ---------------------------------------

// A partial division into k parts: those that hold something, heaviest first.
struct Division {
  struct Part {
    int64_t ns = 0;
    std::vector<int> items;
  };
  std::vector<Part> parts;

  int64_t Spread(size_t num_parts) const {
    return parts.front().ns - (parts.size() < num_parts ? 0 : parts.back().ns);
  }
};

// Heavy parts of one to light parts of the other.
void Join(Division other, size_t num_parts, Division& division) {
  auto& parts = division.parts;
  const size_t num_before = parts.size();
  for (size_t k = 0; k < other.parts.size(); ++k) {
    const size_t opposite = num_parts - 1 - k;
    if (opposite >= num_before) {
      parts.push_back(std::move(other.parts[k]));
      continue;
    }
    const auto& items = other.parts[k].items;
    parts[opposite].ns += other.parts[k].ns;
    parts[opposite].items.insert(parts[opposite].items.end(), items.begin(),
                                 items.end());
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Division::Part& a, const Division::Part& b) {
                     return a.ns > b.ns;
                   });
}

// Largest differencing: the two divisions of the largest spread are joined,
// until one is left.
std::vector<std::vector<int>> Difference(const CostTable& table, int level,
                                         const std::vector<int>& items,
                                         size_t num_parts) {
  auto less = [num_parts](const Division& a, const Division& b) {
    return a.Spread(num_parts) < b.Spread(num_parts);
  };
  std::priority_queue<Division, std::vector<Division>, decltype(less)>
      divisions(less);
  for (int item : items) {
    divisions.push({{{table.sample_ns(level, item), {item}}}});
  }
  while (divisions.size() > 1) {
    Division joined = divisions.top();
    divisions.pop();
    Join(divisions.top(), num_parts, joined);
    divisions.pop();
    divisions.push(std::move(joined));
  }
  std::vector<std::vector<int>> parts(num_parts);
  if (divisions.empty()) return parts;
  const Division& last = divisions.top();
  for (size_t k = 0; k < last.parts.size(); ++k) parts[k] = last.parts[k].items;
  return parts;
}

int64_t TokensOf(const CostTable& table, int level,
                 const std::vector<int>& items) {
  int64_t tokens = 0;
  for (int item : items) tokens += table.tokens(level, item);
  return tokens;
}

// Micro-batches of one replica: as few as memory allows, at least `least`.
std::vector<std::vector<int>> SplitShare(const CostTable& table, int level,
                                         const std::vector<int>& share,
                                         int least) {
  const auto num_items = static_cast<int>(share.size());
  for (int count = least; count < num_items; ++count) {
    auto parts = Difference(table, level, share, count);
    const bool fits = std::all_of(
        parts.begin(), parts.end(), [&](const std::vector<int>& part) {
          return TokensOf(table, level, part) <= table.capacity_tokens(level);
        });
    if (fits) return parts;
  }
  std::vector<std::vector<int>> parts;
  for (int item : share) parts.push_back({item});
  return parts;
}

std::vector<Placement> PlaceKarmarkarKarp(const PolicyInput& input) {
  const CostTable& table = input.table;
  const int level = SmallestLevelForAll(table);
  if (level < 0) return {};
  const int degree = table.degree(level);
  std::vector<int> items;
  for (int item = 0; item < table.num_samples(); ++item) items.push_back(item);
  const auto shares = Difference(table, level, items,
                                 input.request.cluster.num_ranks() / degree);
  int most = 1;  // micro-batches that memory forces on some replica
  for (const auto& share : shares) {
    const int64_t capacity = table.capacity_tokens(level);
    most = std::max<int64_t>(
        most, (TokensOf(table, level, share) + capacity - 1) / capacity);
  }
  Rounds rounds;
  for (const auto& share : shares) {
    const auto parts = SplitShare(table, level, share, most);
    if (rounds.size() < parts.size()) rounds.resize(parts.size());
    for (size_t k = 0; k < parts.size(); ++k) {
      RoundGroup& group = rounds[k].groups.emplace_back();
      group.level = level;
      for (int item : parts[k]) AddItem(table, item, group);
    }
  }
  for (Round& round : rounds) Refresh(table, round);
  return ToPlacements(input, std::move(rounds));
}

// --- Best-fit decreasing, then degree growth
// -----------------------------------

std::vector<RoundGroup> BestFitDecreasing(const CostTable& table) {
  const std::vector<int> levels = PowerOfTwoLevels(table);
  std::vector<RoundGroup> groups;
  for (int item = 0; item < table.num_samples(); ++item) {
    RoundGroup* best = nullptr;
    int64_t least_room = INT64_MAX;
    for (RoundGroup& group : groups) {
      const int64_t room = table.capacity_tokens(group.level) - group.tokens;
      if (room < table.tokens(group.level, item) || room >= least_room) {
        continue;
      }
      least_room = room;
      best = &group;
    }
    if (best == nullptr) {
      best = &groups.emplace_back();
      best->level = SmallestLevel(table, levels, item);
    }
    AddItem(table, item, *best);
  }
  return groups;
}

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

std::vector<Placement> PlaceBestFitGrowth(const PolicyInput& input) {
  const int num_ranks = input.request.cluster.num_ranks();
  std::vector<RoundGroup> left = BestFitDecreasing(input.table);
  std::stable_sort(
      left.begin(), left.end(),
      [](const RoundGroup& a, const RoundGroup& b) { return a.ns > b.ns; });
  Rounds rounds;
  while (!left.empty()) {
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

}  // namespace

std::vector<Placement> PlaceByRule(const PolicyInput& input,
                                   ReferenceRule rule) {
  switch (rule) {
    case ReferenceRule::kDynamicContextParallel:
      return PlaceDynamicContextParallel(input);
    case ReferenceRule::kKarmarkarKarp:
      return PlaceKarmarkarKarp(input);
    case ReferenceRule::kBestFitGrowth:
      return PlaceBestFitGrowth(input);
  }
  return {};
}

absl::Span<const ReferenceRow> ReferenceRules() {
  static constexpr ReferenceRow kRows[] = {
      {ReferenceRule::kDynamicContextParallel, "dynamic-cp"},
      {ReferenceRule::kKarmarkarKarp, "karmarkar-karp"},
      {ReferenceRule::kBestFitGrowth, "best-fit-growth"}};
  return kRows;
}

absl::StatusOr<Plan> MakeReferencePlan(const PlanRequest& request,
                                       ReferenceRule rule) {
  EVENSTEP_RETURN_IF_ERROR(ValidateRequest(request));
  EVENSTEP_RETURN_IF_ERROR(CheckSamplesFit(request));
  if (!request.options.recompute_choices.empty()) {
    return absl::InvalidArgumentError(
        "reference rules choose no recompute: recompute_choices must be empty");
  }
  const CostModel costs(request, request.options.recompute_layers);
  const CostTable table(request, costs);
  const LowerBound bound = ComputeLowerBound(request, costs, table);
  return BuildPlan(request, costs, bound,
                   PlaceByRule({request, costs, table, bound}, rule));
}

}  // namespace evenstep::planner
