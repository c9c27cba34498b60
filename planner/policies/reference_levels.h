#ifndef EVENSTEP_PLANNER_POLICIES_REFERENCE_LEVELS_H_
#define EVENSTEP_PLANNER_POLICIES_REFERENCE_LEVELS_H_

// What the published rules (reference_rules.h) have in common: the levels they
// know, and groups that change theirs. Used by those rules only. Stateless.

#include <vector>

#include "planner/proof/bounds.h"
#include "planner/rounds/round_packing.h"

namespace evenstep::planner {

// Levels of power-of-two degrees, and the widest, which may be needed to hold
// the longest sample.
std::vector<int> PowerOfTwoLevels(const CostTable& table);

int SmallestLevel(const CostTable& table, const std::vector<int>& levels,
                  int item);

// The smallest that runs every item; -1 if none does.
int SmallestLevelForAll(const CostTable& table);

// Whether a group's items fit another level.
bool CanSetLevel(const CostTable& table, int level, const RoundGroup& group);

// Moves a group to another level; its time follows.
void SetLevel(const CostTable& table, int level, RoundGroup& group);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_POLICIES_REFERENCE_LEVELS_H_
