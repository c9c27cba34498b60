#ifndef EVENSTEP_PLANNER_ROUNDS_ROUND_CHAINS_H_
#define EVENSTEP_PLANNER_ROUNDS_ROUND_CHAINS_H_

// A first division of a step into very many rounds: the samples in descending
// length, one limit for every round that allows it, each round as far as it
// reaches. Linear in the samples for a limit, where round_beam.h looks at all
// samples for every round. Stateless.

#include "planner/proof/bounds.h"
#include "planner/rounds/round_fill.h"
#include "planner/rounds/round_packing.h"

namespace evenstep::planner {

// The fastest over some limits.
Rounds FillManyRounds(const CostTable& table, RoundFiller& filler);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_ROUNDS_ROUND_CHAINS_H_
