#ifndef EVENSTEP_PLANNER_TESTING_MEASURE_H_
#define EVENSTEP_PLANNER_TESTING_MEASURE_H_

// What comes of planning: quality, CPU time of this thread (so that a busy
// machine disturbs little), and how plans fare where speeds or costs are not
// what they were planned for. For planner_benchmark and tests. Stateless.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/plan.h"
#include "planner/request.h"

namespace evenstep::planner::testing {

struct Objective {
  std::string name;
  SyncMode sync;
  BlockShape blocks;
};

const std::vector<Objective>& Objectives();

struct Measured {
  Plan plan;
  double cpu_ms = 0;
};

using Planner = std::function<absl::StatusOr<Plan>(const PlanRequest&)>;

// The least CPU time of `runs`; the plan has passed the checker.
absl::StatusOr<Measured> Measure(const Planner& planner,
                                 const PlanRequest& request, int runs);

double RatioOf(const Plan& plan);

// Figures of many plans.
struct Summary {
  std::vector<double> ratios;
  std::vector<double> cpu_ms;

  void Add(const Measured& measured);
  double MeanRatio() const;
  double WorstRatio() const;
  double P99Ms() const;  // of few plans: the longest
};

// Step time of a plan if costs and speeds are those of `truth`.
int64_t StepNsUnder(const PlanRequest& truth, const Plan& plan);

// The same with every micro-batch's time off by up to 10 %, each its own.
int64_t StepNsWithNoise(const PlanRequest& request, const Plan& plan,
                        uint64_t seed);

// Every coefficient of the time model off by up to 10 %, each its own.
PlanRequest WithOtherCosts(PlanRequest request, uint64_t seed);

// One rank, a different one per seed, takes 25 % longer.
PlanRequest WithSlowRank(PlanRequest request, uint64_t seed);

// Memory in bytes such that the stated tokens a rank fit with nothing
// recomputed, and recompute left to the planner.
PlanRequest WithRecompute(PlanRequest request);

}  // namespace evenstep::planner::testing

#endif  // EVENSTEP_PLANNER_TESTING_MEASURE_H_
