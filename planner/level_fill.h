#ifndef EVENSTEP_PLANNER_LEVEL_FILL_H_
#define EVENSTEP_PLANNER_LEVEL_FILL_H_

// First plan of `even` for one target time: degrees by least rank-time among
// those that end within the target, then levels from wide to narrow, long
// samples first, each on the node with the least path so far. Where that would
// pass the target, a wider node that still has room below it is taken.
// Stateless.

#include <cstdint>

#include "planner/tree_packing.h"

namespace evenstep::planner {

struct FillOptions {
  int64_t target_ns = 0;
  // Levels outside are used only by samples that fit no other: for fixed costs
  // that are large against the work.
  int lowest_level = 0;
  int highest_level = 0;
};

TreePacking FillLevels(const BlockTree& tree, const CostTable& table,
                       const FillOptions& options);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_LEVEL_FILL_H_
