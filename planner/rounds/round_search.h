#ifndef EVENSTEP_PLANNER_ROUNDS_ROUND_SEARCH_H_
#define EVENSTEP_PLANNER_ROUNDS_ROUND_SEARCH_H_

// Improves a division into rounds: pools two rounds and splits them anew;
// lowers a round's limit, or dissolves the round, and gives what no longer fits
// to the others by least increase of the sum of peaks; fills changed rounds
// anew (multifit); moves and swaps single items out of the longest groups
// (round_moves.h). Single moves alone can never remove a round, which is why
// dissolving is a step of its own. `even` calls it under per_round. Stateless;
// deterministic; bounded by counted work.

#include <cstdint>

#include "planner/proof/bounds.h"
#include "planner/rounds/round_fill.h"
#include "planner/rounds/round_packing.h"

namespace evenstep::planner {

// Fills every round anew where that lowers its peak.
void RefillRounds(const CostTable& table, RoundFiller& filler, Rounds& rounds);

// Lowers TotalNs(rounds) until it is at most `stop_ns`, nothing helps, or
// `work_left` (items tried) is used up.
void ImproveRounds(const CostTable& table, int64_t stop_ns, int64_t& work_left,
                   RoundFiller& filler, Rounds& rounds);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_ROUNDS_ROUND_SEARCH_H_
