#ifndef EVENSTEP_PLANNER_TESTING_REFERENCE_BOUND_H_
#define EVENSTEP_PLANNER_TESTING_REFERENCE_BOUND_H_

// The lower bound of proof/bounds.h once more, for its tests: in floating
// point, straight from the argument, block by block and mode by mode. Knows
// both kinds of sync and of blocks, slow ranks, recompute choices, modes of
// sequence parallelism and video. Shares time and memory with neither the
// planner nor its table. Slow. Stateless.

#include "planner/request.h"

namespace evenstep::planner::testing {

// With the step's fixed cost. The request must have a plan.
double ReferenceBoundNs(const PlanRequest& request);

}  // namespace evenstep::planner::testing

#endif  // EVENSTEP_PLANNER_TESTING_REFERENCE_BOUND_H_
