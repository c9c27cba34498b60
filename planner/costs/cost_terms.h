#ifndef EVENSTEP_PLANNER_COSTS_COST_TERMS_H_
#define EVENSTEP_PLANNER_COSTS_COST_TERMS_H_

// The time of a micro-batch as a sum of costs times terms, as TimeModel
// (planner/model.h) counts it: what measured times are fitted with, by a
// profile, at a job's start and after each step. Costs and terms are lists in
// the same order:
//
//   time = sum ComputeCosts(c)[i] * ComputeTerms(w)[i]
//          + sum CollectiveCosts(c)[i] * CollectiveTerms(w)[i]
//
// A cost that no measured time tells from another follows it, by a share that
// is known beforehand: a token's in the two kinds of layer of a video model,
// and attention's part of it. Immutable; the lists are plain values.

#include <array>
#include <vector>

#include "absl/types/span.h"
#include "planner/costs/degrees.h"
#include "planner/costs/sample_size.h"
#include "planner/request.h"

namespace evenstep::planner {

// What a micro-batch is to the cost model.
struct BatchWork {
  SequenceSplit split;
  BatchSize size;  // padding at the tail included
  LayerCounts recompute_layers;
  bool crosses_nodes = false;
};

BatchWork WorkOf(const ModelShape& model, const SequenceSplit& split,
                 absl::Span<const Sample> samples,
                 const LayerCounts& recompute_layers);

class CostTerms {
 public:
  // Places in the lists of computing. The pairs of each kind of layer come from
  // kPairs on, then the attention of sharded sequences and, last, a token's
  // cost outside the layers: costs that are hard to tell from those before them
  // come later.
  static constexpr int kToken = 0;  // in all layers
  static constexpr int kFixed = 1;
  static constexpr int kPairs = 2;

  // Places in the lists of collectives before those of tokens: a call's cost
  // within a node and across nodes.
  static constexpr int kLatencies = 2;

  // `first` says which degrees have a cost of their own, which costs there are
  // across nodes, and the shares; where it has no cost of a token, the two
  // kinds of layer share it by halves.
  CostTerms(const ModelShape& model, const TimeModel& first);

  std::vector<double> ComputeCosts(const TimeModel& costs) const;
  void SetComputeCosts(absl::Span<const double> from, TimeModel* costs) const;
  std::vector<double> ComputeTerms(const BatchWork& work) const;

  // A call's, then a token's by degree, in the order of the lists of
  // cost_fields.h.
  std::vector<double> CollectiveCosts(const TimeModel& costs) const;
  void SetCollectiveCosts(absl::Span<const double> from,
                          TimeModel* costs) const;
  std::vector<double> CollectiveTerms(const BatchWork& work) const;

 private:
  // Of a token's cost in all layers, and of the sharded attention in all.
  struct Shares {
    double token = 0;
    double attention = 0;  // of this kind's cost of a token
    double sharded = 0;
  };

  ModelShape model_;
  TimeModel first_;
  std::array<Shares, kMaxLayerKinds> shares_;
};

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_COSTS_COST_TERMS_H_
