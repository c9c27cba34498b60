#ifndef EVENSTEP_COORDINATOR_STEPS_COST_REFIT_H_
#define EVENSTEP_COORDINATOR_STEPS_COST_REFIT_H_

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
// What is fitted is in planner/costs/cost_terms.h. The costs of a token in both
// kinds of layer of a video model are followed together and shared as at first;
// so is attention's part of them.
//
// Costs and speeds stay within what a plan may be made with
// (planner/costs/cost_limits.h), whatever the reports say. A cost that was 0 at
// first is followed only while the reports tell it from the others: steps of
// one length do not say what of their time is quadratic.
//
// Pure arithmetic in the order of steps: the same reports give the same bits.
// Owned by the attempt; not thread-safe.

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "evenstep/v1/plan.pb.h"
#include "planner/costs/cost_terms.h"
#include "planner/costs/nonnegative_fit.h"
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
  // A cost without a first value is followed from this share of what is seen of
  // it that no other cost explains (IndependentShare).
  double least_independence = 0.01;
};

class CostRefit {
 public:
  CostRefit(const planner::TimeModel& first, const planner::ModelShape& model,
            const std::vector<int>& ranks_per_node,
            const RefitOptions& options = {});

  // One committed step: a checked report of each rank, at the rank's index. The
  // first step is left out: its times are those of first use. INVALID_ARGUMENT:
  // the reports give costs or speeds that no plan may be made with; nothing
  // changes.
  absl::Status Observe(const v1::StepPlan& plan,
                       const std::vector<v1::StepReport>& reports);

  const planner::TimeModel& costs() const { return now_.costs; }
  // 1.0: as fast as the rank in the middle. Empty: all are.
  std::vector<double> RankSpeeds() const;
  // Smoothed: measured computing / that by the first costs - 1. 0 before the
  // first observation.
  double drift() const { return now_.drift.value_or(0); }

 private:
  // Linear costs by least squares: factors of `scale`, `prior` to begin with.
  struct Fit {
    std::vector<double> scale;
    std::vector<double> prior;
    // Of the time that the first observations took; 0: not seen yet.
    std::vector<double> share;
    std::vector<double> factor;  // the last solution
    planner::NormalEquations observed{0};
  };
  // All that steps change.
  struct State {
    planner::TimeModel costs;
    Fit compute;
    Fit collectives;
    std::vector<double> log_slowness;  // smoothed, per rank
    std::optional<double> drift;
  };
  struct Observation {
    std::vector<double> terms;
    double ns = 0;
    double weight = 0;
  };

  planner::BatchWork WorkOf(const v1::MicroBatch& micro_batch) const;
  static Fit MakeFit(std::vector<double> first);
  // Costs without a first value that the reports do not tell from the others.
  std::vector<bool> Unidentified(const Fit& fit) const;
  static void WeighPrior(Fit* fit,
                         const std::vector<Observation>& observations);
  // The costs after these observations, each at most its `highest`.
  std::vector<double> Follow(Fit* fit,
                             const std::vector<Observation>& observations,
                             const std::vector<double>& highest) const;
  double Bounded(double ns, double expected_ns) const;

  void ObserveCompute(const v1::StepPlan& plan,
                      const std::vector<v1::StepReport>& reports);
  void ObserveCollectives(const v1::StepPlan& plan,
                          const std::vector<v1::StepReport>& reports);
  void ObserveSpeeds(const v1::StepPlan& plan,
                     const std::vector<v1::StepReport>& reports);
  void ObserveStepFixed(const std::vector<v1::StepReport>& reports);
  absl::Status CheckEstimates() const;

  const planner::TimeModel first_;
  const planner::TimeModel highest_;
  const planner::ModelShape model_;
  const planner::CostTerms terms_;
  const planner::NodeMap nodes_;
  const RefitOptions options_;
  State now_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_STEPS_COST_REFIT_H_
