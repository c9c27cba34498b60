#ifndef EVENSTEP_PLANNER_PROOF_BOUNDS_H_
#define EVENSTEP_PLANNER_PROOF_BOUNDS_H_

// How fast any valid plan can be at best, and which argument says so. Reported
// with every plan; `even` also takes its targets and degrees from here.
// Immutable; safe to share between threads.
//
//   area         cheapest rank-time of every sample, spread over all ranks
//   longest      the slowest sample at its best degree on its fastest block
//   memory       micro-batches that some rank must run, at their fixed cost
//   destructive  the smallest T at which every sample has a degree that ends
//                within T, and the cheapest such rank-times fit all ranks
//
// Rank-time of sample s at degree d is d * SampleNs plus its share of the
// micro-batch's fixed cost, d * FixedNs * tokens / capacity(d), with the
// sample's padded tokens at d: a micro-batch cannot hold more than its
// capacity, so the shares never exceed what is paid.
//
// Under per_round memory forces at least ceil(tokens / (ranks * cap)) rounds.
// Each costs the fixed time c0 and, of every sample in it, what goes beyond; so
// a step is at least rounds * c0 + W, where W is the smallest time in which
// every sample ends (c0 apart) and into which the rank-times (c0's share apart)
// fit.

#include <cstdint>

#include "planner/costs/cost_model.h"
#include "planner/costs/cost_table.h"
#include "planner/plan.h"
#include "planner/request.h"

namespace evenstep::planner {

struct LowerBound {
  int64_t step_ns = 0;  // with the step's fixed cost
  BoundKind kind = BoundKind::kArea;
};

LowerBound ComputeLowerBound(const PlanRequest& request, const CostModel& costs,
                             const CostTable& table);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_PROOF_BOUNDS_H_
