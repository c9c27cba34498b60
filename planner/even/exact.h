#ifndef EVENSTEP_PLANNER_EVEN_EXACT_H_
#define EVENSTEP_PLANNER_EVEN_EXACT_H_

// The fastest plan of all, for steps of at most kMaxExactSamples samples:
// dynamic programming over subsets, micro-batch by micro-batch and node by
// node. `even` uses it where local search would be weak. Stateless.

#include <vector>

#include "planner/even/block_tree.h"
#include "planner/policies.h"

namespace evenstep::planner {

inline constexpr int kMaxExactSamples = 8;

// Whether the step is small enough, and the tree has few enough unlike nodes.
bool ExactIsAffordable(const PolicyInput& input, const BlockTree& tree);

// An optimal plan, in global order. Requires ExactIsAffordable.
std::vector<Placement> PlaceExactly(const PolicyInput& input,
                                    const BlockTree& tree);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_EVEN_EXACT_H_
