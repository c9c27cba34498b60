#include "planner/policies/reference_levels.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace evenstep::planner {
namespace {

bool IsPowerOfTwo(int number) { return (number & (number - 1)) == 0; }

}  // namespace

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

bool CanSetLevel(const CostTable& table, int level, const RoundGroup& group) {
  int64_t tokens = 0;
  for (int item : group.items) {
    if (!table.Allows(level, item)) return false;
    tokens += table.tokens(level, item);
  }
  return tokens <= table.capacity_tokens(level);
}

void SetLevel(const CostTable& table, int level, RoundGroup& group) {
  RoundGroup moved;
  moved.level = level;
  for (int item : group.items) AddItem(table, item, moved);
  group = std::move(moved);
}

}  // namespace evenstep::planner
