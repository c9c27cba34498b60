#ifndef EVENSTEP_PLANNER_EVEN_KICKS_H_
#define EVENSTEP_PLANNER_EVEN_KICKS_H_

// For small steps: some hundreds of seeded kicks out of a local optimum. A kick
// moves a few random samples to random nodes, the local search repairs, and the
// result is kept if it is no worse. Deterministic: the seed is a constant, the
// generator is our own. Stateless.

#include <cstdint>

#include "planner/even/tree_packing.h"

namespace evenstep::planner {

inline constexpr int kMaxKickedSamples = 100;

// Takes what it used from `trials_left`.
void KickPacking(TreePacking& packing, int64_t stop_ns, int64_t& trials_left);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_EVEN_KICKS_H_
