#ifndef EVENSTEP_COORDINATOR_STEPS_COST_TERMS_H_
#define EVENSTEP_COORDINATOR_STEPS_COST_TERMS_H_

// The time of a planned micro-batch as a sum of costs times terms, as the
// planner's cost model counts it (TimeModel of planner/model.h): what
// CostRefit fits. Costs and terms are lists in the same order. Stateless but
// for the model and the first costs.

#include <vector>

#include "evenstep/v1/plan.pb.h"
#include "planner/request.h"

namespace evenstep::coordinator {

class CostTerms {
 public:
  // `first`: which degrees have a cost of their own, and how the two kinds of
  // layer of a video model share the cost of a token.
  CostTerms(const planner::ModelShape& model, const planner::TimeModel& first)
      : model_(model), first_(first) {}

  // Costs that are hard to tell from those before them come last: a token's, a
  // micro-batch's, a pair's of each kind of layer, a token's outside the
  // layers.
  std::vector<double> ComputeCosts(const planner::TimeModel& costs) const;
  void SetComputeCosts(const std::vector<double>& from,
                       planner::TimeModel* costs) const;
  std::vector<double> ComputeTerms(const v1::MicroBatch& micro_batch) const;

  // A call's, then a token's by degree, exchanged and gathered.
  std::vector<double> CollectiveCosts(const planner::TimeModel& costs) const;
  void SetCollectiveCosts(const std::vector<double>& from,
                          planner::TimeModel* costs) const;
  std::vector<double> CollectiveTerms(const v1::MicroBatch& micro_batch) const;

 private:
  // Of what a token costs in the layers of a video model.
  double SpatialShare() const;

  planner::ModelShape model_;
  planner::TimeModel first_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_STEPS_COST_TERMS_H_
