#ifndef EVENSTEP_PLANNER_EVALUATE_H_
#define EVENSTEP_PLANNER_EVALUATE_H_

// From micro-batches to a whole plan: padding, predicted times, busy time per
// rank, imbalance, bound and digest. Called by MakePlan on what a policy chose,
// and by `even` to compare candidates. Stateless.
//
// per_step: a micro-batch starts when all its ranks are free; the step ends
// when the last one ends, plus the step's fixed cost. No barrier in between.
// per_round: a round starts when the one before has ended on every rank.

#include <vector>

#include "planner/costs/cost_model.h"
#include "planner/plan.h"
#include "planner/proof/bounds.h"
#include "planner/request.h"

namespace evenstep::planner {

inline const LayerCounts kRecomputeAsAsked = -1;

// What a policy decides: where, and which samples. Order is global order.
struct Placement {
  Block block;
  std::vector<int> samples;  // indices into the request
  int round = 0;             // ascending; read under per_round only
  // Or options.recompute_layers.
  LayerCounts recompute_layers = kRecomputeAsAsked;
};

// What samples come to at a degree, not yet padded to a multiple of it.
BatchSize SizeOfBatch(const PlanRequest& request, int degree,
                      const std::vector<int>& samples);

// Step time alone, fixed cost included.
int64_t PredictStepNs(const PlanRequest& request, const CostModel& costs,
                      const std::vector<Placement>& placements);

// Different groups of two ranks and more, of the rank that has most.
int MostGroupsPerRank(const PlanRequest& request,
                      const std::vector<Placement>& placements);

Plan BuildPlan(const PlanRequest& request, const CostModel& costs,
               const LowerBound& bound, std::vector<Placement> placements);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_EVALUATE_H_
