#ifndef EVENSTEP_PLANNER_ROUNDS_ROUND_MOVES_H_
#define EVENSTEP_PLANNER_ROUNDS_ROUND_MOVES_H_

// Small changes of a division into rounds that lower the sum of peaks: an item
// of a round's longest group goes elsewhere, or changes places with another;
// an item without a place goes where it costs least. Used by round_search.
// Stateless; deterministic.

#include <cstdint>

#include "planner/proof/bounds.h"
#include "planner/rounds/round_packing.h"

namespace evenstep::planner {

// Applies the best moves and swaps, one at a time, until none lowers the sum of
// peaks or `work_left` is used up.
void MoveAndSwap(const CostTable& table, int num_ranks, int64_t& work_left,
                 Rounds& rounds);

// Adds `item` where the sum of peaks rises least, then where it takes the least
// rank-time; never to round `except`. False if no round has room.
bool InsertItem(const CostTable& table, int num_ranks, int item, int except,
                Rounds& rounds);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_ROUNDS_ROUND_MOVES_H_
