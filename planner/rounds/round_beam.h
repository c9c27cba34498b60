#ifndef EVENSTEP_PLANNER_ROUNDS_ROUND_BEAM_H_
#define EVENSTEP_PLANNER_ROUNDS_ROUND_BEAM_H_

// First divisions of a step into rounds, by beam search: round after round is
// filled with the longest samples left and then with whatever still fits within
// its limit, for several limits and floors; the most promising few are carried
// on. A round may hold short samples beside long ones, which is what memory
// asks for when rounds are nearly full. `even` improves what is found here.
// Stateless.

#include <vector>

#include "planner/proof/bounds.h"
#include "planner/rounds/round_fill.h"
#include "planner/rounds/round_packing.h"

namespace evenstep::planner {

// At most `count` divisions, the fastest first; none if a step would need very
// many rounds.
std::vector<Rounds> SearchBeam(const CostTable& table, size_t count,
                               RoundFiller& filler);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_ROUNDS_ROUND_BEAM_H_
