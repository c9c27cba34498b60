#ifndef EVENSTEP_PLANNER_EVEN_ROUNDS_H_
#define EVENSTEP_PLANNER_EVEN_ROUNDS_H_

// `even` under per_round: small steps exactly (exact_rounds.h), others by
// cutting the sorted samples into rounds (round_segments.h) and improving the
// fastest cuts (round_search.h). Called by PlaceEven, which adds the other
// policies as candidates. Stateless.

#include <vector>

#include "planner/policies.h"

namespace evenstep::planner {

std::vector<Placement> PlaceEvenRounds(const PolicyInput& input);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_EVEN_ROUNDS_H_
