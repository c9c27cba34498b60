#ifndef EVENSTEP_COORDINATOR_PLANNING_COST_REFIT_H_
#define EVENSTEP_COORDINATOR_PLANNING_COST_REFIT_H_

// Costs that follow what the steps measure: recursive least squares with
// forgetting, no cost below zero, from the reports of committed steps. What the
// reports say nothing of stays as it was given or measured at the start, so a
// job whose steps all look alike keeps the ratio of its costs. Also how fast
// each rank is, and how far the work has drifted from the first costs.
//
// Compute follows the time outside collectives of every rank and micro-batch;
// collectives, of heads and of gathered keys and values, follow the least of a
// group, whose rank came last and waited for nobody. A single time far from
// what is expected counts as one at the bound: one hiccup moves little, a
// lasting change is followed within some steps.
//
// Of a video model the costs of both kinds of layer are followed: pairs of each
// by themselves; what a token costs, together, shared as at first.
//
// Pure arithmetic in the order of steps: the same reports give the same bits.
// Owned by the attempt; not thread-safe.

#include <optional>
#include <vector>

#include "base/nonnegative_fit.h"
#include "evenstep/v1/plan.pb.h"
#include "planner/request.h"

namespace evenstep::coordinator {

struct RefitOptions {
  // What is left of an observation's weight one step later.
  double memory = 0.95;
  // Weight of the first costs: so many observations that never fade.
  double prior_weight = 0.02;
  // A time beyond this many times what was expected, either way, counts as
  // that.
  double outlier_ratio = 2;
  // Share of a new step in the smoothed values.
  double smoothing = 0.1;
  // Speeds closer to nominal than this are noise.
  double speed_tolerance = 0.05;
};

class CostRefit {
 public:
  CostRefit(const planner::TimeModel& first, const planner::ModelShape& model,
            int world, const RefitOptions& options = {});

  // One committed step: a checked report of each rank, at the rank's index. The
  // first step is left out: its times are those of first use.
  void Observe(const v1::StepPlan& plan,
               const std::vector<v1::StepReport>& reports);

  const planner::TimeModel& costs() const { return costs_; }
  // 1.0: as fast as the rank in the middle. Empty: all are.
  std::vector<double> RankSpeeds() const;
  // Smoothed: measured computing / that by the first costs - 1. 0 before the
  // first observation.
  double drift() const { return drift_.value_or(0); }

 private:
  // Linear costs by least squares: factors of `scale`, `prior` to begin with.
  struct Fit {
    std::vector<double> scale;
    std::vector<double> prior;
    // Of the time that the first observations took; 0: not seen yet.
    std::vector<double> share;
    NormalEquations observed{0};
  };
  struct Observation {
    std::vector<double> terms;
    double ns = 0;
    double weight = 0;
  };

  static Fit MakeFit(std::vector<double> first);
  static void WeighPrior(Fit* fit,
                         const std::vector<Observation>& observations);
  // The costs after these observations; none: after those before.
  std::vector<double> Follow(Fit* fit,
                             const std::vector<Observation>& observations);
  // In the order of ComputeTerms.
  std::vector<double> ComputeCosts(const planner::TimeModel& costs) const;
  void SetComputeCosts(const std::vector<double>& costs);
  // Of what a token costs in the layers of a video model.
  double SpatialShare() const;
  std::vector<double> CollectiveCosts() const;
  std::vector<double> ComputeTerms(const v1::MicroBatch& micro_batch) const;
  std::vector<double> CollectiveTerms(const v1::MicroBatch& micro_batch) const;
  double Bounded(double ns, double expected_ns) const;

  void ObserveCompute(const v1::StepPlan& plan,
                      const std::vector<v1::StepReport>& reports);
  void ObserveCollectives(const v1::StepPlan& plan,
                          const std::vector<v1::StepReport>& reports);
  void ObserveSpeeds(const v1::StepPlan& plan,
                     const std::vector<v1::StepReport>& reports);
  void ObserveStepFixed(const std::vector<v1::StepReport>& reports);

  const planner::TimeModel first_;
  const planner::ModelShape model_;
  const RefitOptions options_;
  planner::TimeModel costs_;
  Fit compute_;
  Fit collectives_;
  std::vector<double> log_slowness_;  // smoothed, per rank
  std::optional<double> drift_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_PLANNING_COST_REFIT_H_
