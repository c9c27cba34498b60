#ifndef EVENSTEP_PLANNER_EVEN_LOCAL_SEARCH_H_
#define EVENSTEP_PLANNER_EVEN_LOCAL_SEARCH_H_

// Improves a packing in place: samples on the heaviest path move to light nodes
// of any level, or change places with samples there. A change is made only if
// both touched subtrees end below the old peak, so the peak never rises and the
// search ends. Deterministic; bounded by counted trials. Stateless.

#include <cstdint>

#include "planner/even/tree_packing.h"

namespace evenstep::planner {

// Takes what it used from `trials_left`. Ends early at a peak of `stop_ns`.
void ImprovePacking(TreePacking& packing, int64_t stop_ns,
                    int64_t& trials_left);

inline constexpr int kMaxKickedSamples = 100;

// For small steps: some hundreds of seeded kicks out of a local optimum. A kick
// moves a few random samples to random nodes, the local search repairs, and the
// result is kept if it is no worse. The seed is a constant. Takes what it used
// from `trials_left`.
void KickPacking(TreePacking& packing, int64_t stop_ns, int64_t& trials_left);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_EVEN_LOCAL_SEARCH_H_
