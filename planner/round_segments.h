#ifndef EVENSTEP_PLANNER_ROUND_SEGMENTS_H_
#define EVENSTEP_PLANNER_ROUND_SEGMENTS_H_

// First divisions of a step into rounds: the samples in descending length are
// cut into segments, one a round, by dynamic programming over some boundaries
// and round counts; how far a round reaches within a time is found by filling
// it (round_fill.h). Samples of like length share a round, so that long ones do
// not make short ones wait. `even` improves what is found here. Stateless.

#include <vector>

#include "planner/bounds.h"
#include "planner/round_fill.h"
#include "planner/round_packing.h"

namespace evenstep::planner {

// At least one division, at most `count`, of different numbers of rounds, the
// fastest first.
std::vector<Rounds> CutIntoRounds(const CostTable& table, size_t count,
                                  RoundFiller& filler);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_ROUND_SEGMENTS_H_
