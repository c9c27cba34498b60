#include "planner/rounds/round_packing.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/rounds/slow_ranks.h"

namespace evenstep::planner {
namespace {

// Groups [begin, end) have one degree and stand from `first_rank` on.
void DealBlocks(const PolicyInput& input, std::vector<RoundGroup>& groups,
                size_t begin, size_t end, int first_rank,
                std::vector<Block>& blocks) {
  const CostTable& table = input.table;
  const int degree = table.degree(groups[begin].level);
  std::vector<Block> run;
  for (size_t k = begin; k < end; ++k, first_rank += degree) {
    run.push_back({first_rank, degree});
  }
  std::stable_sort(run.begin(), run.end(), [&](const Block& a, const Block& b) {
    return input.costs.BlockSpeed(a) > input.costs.BlockSpeed(b);
  });
  blocks.insert(blocks.end(), run.begin(), run.end());
}

// Blocks for groups of descending degree, side by side.
std::vector<Block> BlocksSideBySide(const PolicyInput& input,
                                    std::vector<RoundGroup>& groups) {
  std::vector<Block> blocks;
  int first_rank = 0;
  for (size_t begin = 0, end = 0; begin < groups.size(); begin = end) {
    const int degree = input.table.degree(groups[begin].level);
    while (end < groups.size() &&
           input.table.degree(groups[end].level) == degree) {
      ++end;
    }
    DealBlocks(input, groups, begin, end, first_rank, blocks);
    first_rank += static_cast<int>(end - begin) * degree;
  }
  return blocks;
}

void PlaceRound(const PolicyInput& input, const SlowRanks& slow, Round& round,
                int number, std::vector<Placement>& placements) {
  auto& groups = round.groups;
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const RoundGroup& a, const RoundGroup& b) {
                     const int degree_a = input.table.degree(a.level);
                     const int degree_b = input.table.degree(b.level);
                     if (degree_a != degree_b) return degree_a > degree_b;
                     return a.ns > b.ns;
                   });
  std::vector<Block> blocks;
  if (round.spares_slow_ranks) {
    std::vector<int> degrees;
    degrees.reserve(groups.size());
    for (const RoundGroup& group : groups) {
      degrees.push_back(input.table.degree(group.level));
    }
    blocks = BlocksAround(slow, degrees, input.request.options.blocks);
  }
  if (blocks.empty()) blocks = BlocksSideBySide(input, groups);
  for (size_t k = 0; k < groups.size(); ++k) {
    std::vector<int> samples;
    for (int item : groups[k].items) {
      samples.push_back(input.table.request_index(item));
    }
    placements.push_back({blocks[k], std::move(samples), number,
                          input.table.recompute_layers(groups[k].level)});
  }
}

// -1 if no level has the placement's class of blocks and mode.
int LevelOf(const PolicyInput& input, const Placement& placement) {
  const LayerCounts& mode = placement.recompute_layers == kRecomputeAsAsked
                                ? input.request.options.recompute_layers
                                : placement.recompute_layers;
  const BlockClass wanted = input.costs.ClassOf(placement.block);
  for (int level = 0; level < input.table.num_levels(); ++level) {
    const BlockClass& block_class = input.table.block_class(level);
    if (block_class.degree == wanted.degree &&
        block_class.crosses_nodes == wanted.crosses_nodes &&
        input.table.recompute_layers(level) == mode) {
      return level;
    }
  }
  return -1;
}

int WidestDegree(const CostTable& table, const Round& round) {
  int widest = 0;
  for (const auto& group : round.groups) {
    widest = std::max(widest, table.degree(group.level));
  }
  return widest;
}

}  // namespace

std::vector<int> Round::Items() const {
  std::vector<int> items;
  for (const auto& group : groups) {
    items.insert(items.end(), group.items.begin(), group.items.end());
  }
  std::sort(items.begin(), items.end());
  return items;
}

int64_t TotalNs(const Rounds& rounds) {
  int64_t total_ns = 0;
  for (const Round& round : rounds) total_ns += round.peak_ns;
  return total_ns;
}

void AddItem(const CostTable& table, int item, RoundGroup& group) {
  if (group.items.empty()) group.ns = table.fixed_ns(group.level);
  group.items.push_back(item);
  group.tokens += table.tokens(group.level, item);
  group.ns += table.sample_ns(group.level, item);
}

void RemoveItem(const CostTable& table, int item, RoundGroup& group) {
  group.items.erase(std::find(group.items.begin(), group.items.end(), item));
  group.tokens -= table.tokens(group.level, item);
  group.ns -= table.sample_ns(group.level, item);
}

void LowerMode(const CostTable& table, RoundGroup& group) {
  if (table.num_modes() == 1) return;
  RoundGroup fastest;
  fastest.ns = group.ns;
  for (int level = group.level % table.num_degrees();
       level < table.num_levels(); level += table.num_degrees()) {
    if (group.tokens > table.capacity_tokens(level)) continue;
    RoundGroup lowered;
    lowered.level = level;
    for (int item : group.items) AddItem(table, item, lowered);
    if (lowered.ns < fastest.ns) fastest = std::move(lowered);
  }
  if (fastest.ns < group.ns) group = std::move(fastest);
}

void Refresh(const CostTable& table, Round& round) {
  std::erase_if(round.groups,
                [](const RoundGroup& group) { return group.items.empty(); });
  round.num_ranks = 0;
  round.peak_ns = 0;
  for (const RoundGroup& group : round.groups) {
    round.num_ranks += table.degree(group.level);
    round.peak_ns = std::max(round.peak_ns, group.ns);
  }
}

std::vector<Placement> ToPlacements(const PolicyInput& input, Rounds rounds) {
  std::erase_if(rounds, [](const Round& r) { return r.groups.empty(); });
  std::stable_sort(
      rounds.begin(), rounds.end(), [&](const Round& a, const Round& b) {
        return WidestDegree(input.table, a) > WidestDegree(input.table, b);
      });
  const SlowRanks slow = FindSlowRanks(input.request.cluster);
  std::vector<Placement> placements;
  for (size_t k = 0; k < rounds.size(); ++k) {
    PlaceRound(input, slow, rounds[k], static_cast<int>(k), placements);
  }
  return placements;
}

Rounds ToRounds(const PolicyInput& input,
                const std::vector<Placement>& placements) {
  const CostTable& table = input.table;
  std::vector<int> item_of(table.num_samples());
  for (int i = 0; i < table.num_samples(); ++i) {
    item_of[table.request_index(i)] = i;
  }
  Rounds rounds;
  for (const Placement& placement : placements) {
    RoundGroup group;
    group.level = LevelOf(input, placement);
    if (group.level < 0) return {};
    for (int index : placement.samples) {
      AddItem(table, item_of[index], group);
    }
    std::sort(group.items.begin(), group.items.end());
    LowerMode(table, group);
    if (placement.round >= static_cast<int>(rounds.size())) {
      rounds.resize(placement.round + 1);
    }
    rounds[placement.round].groups.push_back(std::move(group));
  }
  for (Round& round : rounds) Refresh(table, round);
  return rounds;
}

}  // namespace evenstep::planner
