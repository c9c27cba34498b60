// How much of `even`'s gain is left where the planner is wrong about the
// hardware, or right about bad hardware. Step times over those of the ideal.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "client/plan/plan_setup.h"
#include "client/plan/policy_runs.h"
#include "data/length_law.h"

namespace evenstep::plan {
namespace {

constexpr int kSeeds = 8;
constexpr int kSlowRanks[] = {0, 5, 31, 62};
constexpr double kPlans = kSeeds * std::size(kSlowRanks);

PlanSetup FlexSpSetup() {
  PlanSetup setup;
  setup.num_gpus = 64;
  setup.costs = "flexsp-7b-a100";
  setup.micro_batch_fixed_ms = 20;
  setup.recompute = RecomputeChoice::kFixed;
  setup.tokens_per_gpu = 6449;
  setup.degrees = {1, 2, 4, 8, 16, 32, 64};
  return setup;
}

planner::PlanRequest Wikipedia(const PlanSetup& setup, uint64_t seed) {
  auto request = BuildRequest(
      setup, *LoadCosts(setup.costs),
      data::DrawLengths(*data::ParseLengthLaw("wikipedia"), 512, seed));
  EXPECT_TRUE(request.ok()) << request.status();
  return *request;
}

PolicyRun RunEven(const planner::PlanRequest& request,
                  std::optional<planner::Hardware> hardware = {}) {
  RunOptions options;
  options.policies = {planner::Policy::kEven};
  options.simulate = std::move(hardware);
  auto comparison = ComparePolicies(request, options);
  EXPECT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_TRUE(comparison->AnyPlan());
  return comparison->runs[0];
}

double Ratio(int64_t a_ns, int64_t b_ns) {
  return static_cast<double>(a_ns) / static_cast<double>(b_ns);
}

TEST(RobustnessTest, ASlowRankCostsLittleIfThePlannerKnowsAndItsDelayIfNot) {
  double known = 0;
  double unknown = 0;
  for (int slow_rank : kSlowRanks) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      PlanSetup setup = FlexSpSetup();
      const auto request = Wikipedia(setup, seed);
      planner::Hardware hardware;
      hardware.rank_slowdown.assign(64, 1);
      hardware.rank_slowdown[slow_rank] = 1.25;
      const PolicyRun run = RunEven(request, hardware);
      setup.rank_speed = {{slow_rank, 0.8}};
      const PolicyRun aware = RunEven(Wikipedia(setup, seed));
      const int64_t ideal_ns = run.plan.predicted_step_ns;
      known += Ratio(aware.plan.predicted_step_ns, ideal_ns) / kPlans;
      unknown += Ratio(run.simulated->step_ns, ideal_ns) / kPlans;
    }
  }
  RecordProperty("known", std::to_string(known));
  RecordProperty("unknown", std::to_string(unknown));
  EXPECT_LE(known, 1.06);
  EXPECT_GE(unknown, 1.15);
  EXPECT_LE(unknown, 1.25);
}

// Planned with wrong costs, run with the true ones, against the plan that knows
// them.
TEST(RobustnessTest, CostsThatAreTenPercentOffLoseAFewPercent) {
  double lost = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto request = Wikipedia(FlexSpSetup(), seed);
    planner::Hardware hardware;
    hardware.true_time = *planner::MisjudgedCosts(request.time, 0.1, seed);
    const PolicyRun blind = RunEven(request, hardware);
    planner::PlanRequest true_request = request;
    true_request.time = *hardware.true_time;
    const PolicyRun aware = RunEven(true_request);
    lost +=
        Ratio(blind.simulated->step_ns, aware.plan.predicted_step_ns) / kSeeds;
  }
  RecordProperty("ratio", std::to_string(lost));
  EXPECT_LE(lost, 1.065);
  EXPECT_GE(lost, 1);
}

}  // namespace
}  // namespace evenstep::plan
