#ifndef EVENSTEP_PLANNER_ROUNDS_ROUND_PACKING_H_
#define EVENSTEP_PLANNER_ROUNDS_ROUND_PACKING_H_

// A per_round step while it is being made: rounds of groups, at nominal speed.
// Blocks of descending degree, laid side by side, are aligned by themselves, so
// a round is legal if its degrees add up to at most the ranks: where the blocks
// stand is decided at the end. Used by `even` under per_round. Plain data; not
// thread-safe.
//
// Items are indices into the CostTable, in descending length. A group's time is
// the fixed cost and the times of its items, which each round their own padding
// and remainders down: the evaluation of a finished plan is exact.

#include <cstdint>
#include <vector>

#include "planner/policies.h"

namespace evenstep::planner {

struct RoundGroup {
  int level = 0;
  int64_t tokens = 0;  // of the capacity
  int64_t ns = 0;
  std::vector<int> items;
};

struct Round {
  std::vector<RoundGroup> groups;
  int num_ranks = 0;               // taken by the groups
  bool spares_slow_ranks = false;  // they idle (slow_ranks.h)
  int64_t peak_ns = 0;

  std::vector<int> Items() const;  // ascending index
};

using Rounds = std::vector<Round>;

int64_t TotalNs(const Rounds& rounds);

void AddItem(const CostTable& table, int item, RoundGroup& group);
void RemoveItem(const CostTable& table, int item, RoundGroup& group);
// Gives the group the fastest mode that holds its tokens; its own on a tie.
void LowerMode(const CostTable& table, RoundGroup& group);
// Drops empty groups, counts ranks and peak anew.
void Refresh(const CostTable& table, Round& round);

// Widest blocks first, side by side, in every round; of blocks of one degree
// the fastest gets the longest group. Empty rounds are left out, and rounds
// stand in descending order of their first block's degree, so that groups
// recur.
std::vector<Placement> ToPlacements(const PolicyInput& input, Rounds rounds);
// The way back: the division of a plan in rounds, every group in the fastest
// mode that holds it. Empty if a group fits no level of the table.
Rounds ToRounds(const PolicyInput& input,
                const std::vector<Placement>& placements);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_ROUNDS_ROUND_PACKING_H_
