// Slow ranks and wrong costs.

#include <string>

#include "planner/benchmark/rows.h"
#include "planner/planner.h"
#include "planner/testing/fresh_batches.h"
#include "planner/testing/measure.h"
#include "planner/testing/shared_batches.h"

namespace evenstep::planner::benchmarks {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

absl::StatusOr<PlanRequest> RequestOf(const std::string& batch, uint64_t seed,
                                      SyncMode sync) {
  if (batch == "ln64") return LoadSharedBatch(SharedBatches()[0], sync);
  const LengthLaw law =
      batch == "wikipedia" ? LengthLaw::kWikipedia : LengthLaw::kLognormal;
  return FreshBatch(law, kFirstSeed + seed, sync);
}

// Against the lower bound with the slow rank, which is the ideal.
absl::Status PlanWithSlowRank(benchmark::State& state, const std::string& batch,
                              SyncMode sync, bool known) {
  Summary summary;
  for (int i = 0; i < kNumFreshSeeds; ++i) {
    auto request = RequestOf(batch, i, sync);
    if (!request.ok()) return request.status();
    const PlanRequest truth = WithSlowRank(*request, i);
    auto ideal = Measure(MakePlan, truth, 1);
    if (!ideal.ok()) return ideal.status();
    auto measured = Measure(MakePlan, known ? truth : *request, 1);
    if (!measured.ok()) return measured.status();
    measured->plan.predicted_step_ns = StepNsUnder(truth, measured->plan);
    measured->plan.lower_bound_ns = ideal->plan.lower_bound_ns;
    summary.Add(*measured);
  }
  const bool has_target = known && sync == SyncMode::kPerStep;
  return Summarize(state, summary, has_target ? Target{1.06, 0} : Target());
}

enum class Error { kCoefficients, kMicroBatches };

// Either every coefficient of the costs is off by up to 10 %, against the plan
// for the true costs; or every micro-batch's time, against the same plan where
// none is: that, no planner can know.
absl::Status PlanWithWrongCosts(benchmark::State& state,
                                const std::string& batch, SyncMode sync,
                                Error error) {
  Summary summary;
  for (int i = 0; i < kNumFreshSeeds; ++i) {
    auto request = RequestOf(batch, i, sync);
    if (!request.ok()) return request.status();
    auto measured = Measure(MakePlan, *request, 1);
    if (!measured.ok()) return measured.status();
    Plan& plan = measured->plan;
    plan.lower_bound_ns = plan.predicted_step_ns;
    if (error == Error::kMicroBatches) {
      plan.predicted_step_ns = StepNsWithNoise(*request, plan, i);
    } else {
      const PlanRequest truth = WithOtherCosts(*request, i);
      auto ideal = Measure(MakePlan, truth, 1);
      if (!ideal.ok()) return ideal.status();
      plan.lower_bound_ns = ideal->plan.predicted_step_ns;
      plan.predicted_step_ns = StepNsUnder(truth, plan);
    }
    summary.Add(*measured);
  }
  const bool has_target = error == Error::kCoefficients;
  return Summarize(state, summary, has_target ? Target{1.065, 0} : Target());
}

}  // namespace

void AddRobustnessRows() {
  for (const Objective& objective : {Objectives()[0], Objectives()[2]}) {
    for (const std::string batch : {"ln64", "wikipedia", "lognormal"}) {
      for (bool known : {true, false}) {
        AddRow("slow_rank/" + objective.name + "/" + batch +
                   (known ? "/known" : "/unknown"),
               [=](benchmark::State& state) {
                 return PlanWithSlowRank(state, batch, objective.sync, known);
               });
      }
      AddRow("wrong_costs/" + objective.name + "/" + batch,
             [=](benchmark::State& state) {
               return PlanWithWrongCosts(state, batch, objective.sync,
                                         Error::kCoefficients);
             });
      AddRow("noise/" + objective.name + "/" + batch,
             [=](benchmark::State& state) {
               return PlanWithWrongCosts(state, batch, objective.sync,
                                         Error::kMicroBatches);
             });
    }
  }
}

}  // namespace evenstep::planner::benchmarks
