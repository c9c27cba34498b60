#ifndef EVENSTEP_PLANNER_ROUNDS_EVEN_ROUNDS_H_
#define EVENSTEP_PLANNER_ROUNDS_EVEN_ROUNDS_H_

// `even` under per_round: small steps exactly, others by beam search over
// rounds (by chains if there are very many) and by improving the fastest
// division; all of these are in round_search.h. Called by PlaceEven, which adds
// the other policies as candidates. Stateless.

#include <vector>

#include "planner/policies.h"

namespace evenstep::planner {

// The usual plan first. Under per_round others follow in which slow ranks, if
// there are any, idle: in those rounds of the usual plan where that is faster,
// and, unless a sample needs them all, in every round. `known` are plans in
// rounds that the search starts from too.
std::vector<std::vector<Placement>> PlaceEvenRounds(
    const PolicyInput& input,
    const std::vector<std::vector<Placement>>& known = {});

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_ROUNDS_EVEN_ROUNDS_H_
