// verl's Karmarkar-Karp at a static degree, restated (reference_rules.h).

#include <algorithm>
#include <queue>
#include <utility>
#include <vector>

#include "planner/policies/reference_rules.h"

namespace evenstep::planner {
namespace {

using Parts = std::vector<std::vector<int>>;  // items

// A partial division into k parts: those that hold something, heaviest first.
struct Division {
  struct Part {
    int64_t ns = 0;
    std::vector<int> items;
  };
  std::vector<Part> parts;
  int number = 0;  // in order of making

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
// until one is left; of like ones the first made.
Parts Difference(const CostTable& table, int level,
                 const std::vector<int>& items, size_t num_parts) {
  auto less = [num_parts](const Division& a, const Division& b) {
    const int64_t spread_a = a.Spread(num_parts);
    const int64_t spread_b = b.Spread(num_parts);
    return spread_a != spread_b ? spread_a < spread_b : a.number > b.number;
  };
  std::priority_queue<Division, std::vector<Division>, decltype(less)>
      divisions(less);
  int number = 0;
  for (int item : items) {
    divisions.push({{{table.sample_ns(level, item), {item}}}, number++});
  }
  while (divisions.size() > 1) {
    Division joined = divisions.top();
    divisions.pop();
    Join(divisions.top(), num_parts, joined);
    divisions.pop();
    joined.number = number++;
    divisions.push(std::move(joined));
  }
  Parts parts(num_parts);
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

bool FitEach(const CostTable& table, int level, const Parts& parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const auto& part) {
    return TokensOf(table, level, part) <= table.capacity_tokens(level);
  });
}

// Micro-batches of one replica: as few as memory allows, at least `least`. The
// number is found by growing steps, then bisection between the last that was
// too small and the first that was not.
Parts SplitShare(const CostTable& table, int level,
                 const std::vector<int>& share, int least, int64_t& work_left) {
  const auto num_items = static_cast<int>(share.size());
  Parts best;
  for (int item : share) best.push_back({item});
  int too_few = least - 1;
  int enough = std::max(num_items, least);
  auto fits = [&](int count) {
    work_left -= int64_t{num_items} * (1 + count / 8);
    Parts parts = Difference(table, level, share, count);
    if (!FitEach(table, level, parts)) return false;
    best = std::move(parts);
    return true;
  };
  for (int step = 1; too_few + step < enough && work_left > 0; step *= 2) {
    if (fits(too_few + step)) {
      enough = too_few + step;
      break;
    }
    too_few += step;
  }
  while (enough - too_few > 1 && work_left > 0) {
    const int middle = too_few + (enough - too_few) / 2;
    (fits(middle) ? enough : too_few) = middle;
  }
  return best;
}

}  // namespace

std::vector<Placement> PlaceKarmarkarKarp(const PolicyInput& input,
                                          int64_t& work_left) {
  const CostTable& table = input.table;
  const int level = SmallestLevelForAll(table);
  if (level < 0) return {};
  const int degree = table.degree(level);
  std::vector<int> items;
  items.reserve(table.num_samples());
  for (int item = 0; item < table.num_samples(); ++item) items.push_back(item);
  work_left -= int64_t{table.num_samples()} *
               (1 + input.request.cluster.num_ranks() / degree / 8);
  if (work_left <= 0) return {};
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
    const auto parts = SplitShare(table, level, share, most, work_left);
    if (work_left <= 0) return {};
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

}  // namespace evenstep::planner
