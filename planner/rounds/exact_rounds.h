#ifndef EVENSTEP_PLANNER_ROUNDS_EXACT_ROUNDS_H_
#define EVENSTEP_PLANNER_ROUNDS_EXACT_ROUNDS_H_

// The fastest per_round plan of all, for steps of few samples: dynamic
// programming over subsets, from the last rank to the first within a round, and
// over rounds. `even` uses it where searching would be weak. Stateless.

#include <vector>

#include "planner/policies.h"

namespace evenstep::planner {

// Whether samples and blocks are few enough.
bool ExactRoundsAreAffordable(const PolicyInput& input);

// An optimal plan. Requires ExactRoundsAreAffordable.
std::vector<Placement> PlaceRoundsExactly(const PolicyInput& input);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_ROUNDS_EXACT_ROUNDS_H_
