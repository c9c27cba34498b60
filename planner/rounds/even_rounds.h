#ifndef EVENSTEP_PLANNER_ROUNDS_EVEN_ROUNDS_H_
#define EVENSTEP_PLANNER_ROUNDS_EVEN_ROUNDS_H_

// `even` under per_round: small steps exactly (exact_rounds.h), others by
// beam search over rounds (round_beam.h; round_chains.h for very many) and
// improving the fastest division (round_search.h). Called by PlaceEven, which
// adds the other policies as candidates. Stateless.

#include <vector>

#include "planner/policies.h"

namespace evenstep::planner {

std::vector<Placement> PlaceEvenRounds(const PolicyInput& input);

// Plans in which slow ranks idle: in every round, and in those rounds of the
// usual plan where that is faster. None if no rank is slow, or a sample needs
// them all.
std::vector<std::vector<Placement>> PlaceSparingSlowRanks(
    const PolicyInput& input);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_ROUNDS_EVEN_ROUNDS_H_
