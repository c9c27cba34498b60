// What the fit makes of times that say nothing, too much, or absurd things.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "coordinator/steps/cost_refit.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/costs/cost_limits.h"
#include "planner/limits.h"

namespace evenstep::coordinator {
namespace {

using ::testing::IsEmpty;

constexpr int kWorld = 2;

planner::ModelShape TextModel() {
  planner::ModelShape model;
  model.num_layers = 4;
  return model;
}

planner::TimeModel Costs() {
  planner::TimeModel costs;
  costs.micro_batch_fixed_ns = 400'000;
  costs.head_ns_per_token = 1e3;
  costs.linear_ns_per_token = 8e3;
  costs.quadratic_ns_per_token2 = 1.5;
  return costs;
}

// One document of `length` tokens a rank and step.
v1::StepPlan PlanOfOneLength(int64_t step, int64_t length) {
  v1::StepPlan plan;
  plan.set_step(step);
  plan.set_world(kWorld);
  for (int rank = 0; rank < kWorld; ++rank) {
    v1::MicroBatch* micro_batch = plan.add_micro_batches();
    micro_batch->set_first_rank(rank);
    micro_batch->set_degree(1);
    micro_batch->add_lengths(length);
  }
  return plan;
}

std::vector<v1::StepReport> ComputeTimes(const v1::StepPlan& plan,
                                         const std::vector<int64_t>& ns) {
  std::vector<v1::StepReport> reports(kWorld);
  for (int rank = 0; rank < kWorld; ++rank) {
    reports[rank].set_rank(rank);
    v1::MicroBatchTime* time = reports[rank].add_micro_batches();
    time->set_index(rank);
    time->set_compute_ns(ns[rank]);
  }
  return reports;
}

TEST(CostRefitLimitsTest, OneLengthDoesNotSayWhatIsQuadratic) {
  planner::TimeModel first = Costs();
  first.quadratic_ns_per_token2 = 0;
  first.head_ns_per_token = 0;
  CostRefit refit(first, TextModel(), {kWorld});
  for (int64_t step = 1; step < 60; ++step) {
    const v1::StepPlan plan = PlanOfOneLength(step, 64);
    // The machine is busy: now this rank, now the other one.
    const int64_t ns = 5'000'000 + 3'000'000 * (step % 7);
    ASSERT_TRUE(
        refit.Observe(plan, ComputeTimes(plan, {ns, 13'000'000 - ns / 2}))
            .ok());
    EXPECT_EQ(refit.costs().quadratic_ns_per_token2, 0);
    EXPECT_EQ(refit.costs().head_ns_per_token, 0);
  }
  EXPECT_GT(refit.costs().linear_ns_per_token, first.linear_ns_per_token);
}

TEST(CostRefitLimitsTest, WithoutFirstCostsTheTimeIsATokens) {
  CostRefit refit({}, TextModel(), {kWorld});
  for (int64_t step = 1; step < 60; ++step) {
    const v1::StepPlan plan = PlanOfOneLength(step, 64);
    ASSERT_TRUE(
        refit.Observe(plan, ComputeTimes(plan, {640'000, 640'000})).ok());
  }
  EXPECT_NEAR(refit.costs().linear_ns_per_token, 10'000, 10);
  EXPECT_EQ(refit.costs().micro_batch_fixed_ns, 0);
  EXPECT_EQ(refit.costs().quadratic_ns_per_token2, 0);
}

TEST(CostRefitLimitsTest,
     AnEstimateIsHeldAtItsLimitAndTheOthersExplainTheRest) {
  planner::TimeModel first;
  first.linear_ns_per_token = 1000;
  CostRefit refit(first, TextModel(), {kWorld});
  // 5,000 ns for a pair: more than a plan may be made with.
  for (int64_t step = 1; step < 400; ++step) {
    const v1::StepPlan plan = PlanOfOneLength(step, 8 + step % 50);
    const int64_t length = plan.micro_batches(0).lengths(0);
    const int64_t ns = 5000 * length * length;
    ASSERT_TRUE(refit.Observe(plan, ComputeTimes(plan, {ns, ns})).ok());
    ASSERT_TRUE(planner::ValidateTime(refit.costs()).ok());
  }
  EXPECT_EQ(refit.costs().quadratic_ns_per_token2,
            planner::kMaxQuadraticNsPerToken2);
  EXPECT_GT(refit.costs().linear_ns_per_token, 10'000);
}

TEST(CostRefitLimitsTest, TheLongestTimesThatAMessageHoldsAreFollowedToo) {
  constexpr int64_t kLongest = std::numeric_limits<int64_t>::max();
  CostRefit refit({}, TextModel(), {kWorld});
  for (int64_t step = 1; step < 20; ++step) {
    v1::StepPlan plan = PlanOfOneLength(step, 8 + step % 5);
    // Three micro-batches of a rank: their times have no sum in 63 bits.
    for (int i = 0; i < 2; ++i) {
      *plan.add_micro_batches() = plan.micro_batches(0);
    }
    auto reports = ComputeTimes(plan, {kLongest, kLongest});
    for (int i : {2, 3}) {
      v1::MicroBatchTime* time = reports[0].add_micro_batches();
      time->set_index(i);
      time->set_compute_ns(kLongest);
    }
    for (v1::StepReport& report : reports) {
      report.set_reduction_ns(kLongest);
      report.set_update_compute_ns(kLongest);
    }
    ASSERT_TRUE(refit.Observe(plan, reports).ok());
    ASSERT_TRUE(planner::ValidateTime(refit.costs()).ok());
  }
  EXPECT_EQ(refit.costs().step_fixed_ns, planner::kMaxFixedNs);
  EXPECT_GT(refit.costs().linear_ns_per_token, 0);
}

TEST(CostRefitLimitsTest, EstimatesThatAreNoNumbersAreDropped) {
  RefitOptions options;
  options.memory = std::nan("");
  CostRefit refit(Costs(), TextModel(), {kWorld}, options);
  for (int64_t step = 1; step < 4; ++step) {
    const v1::StepPlan plan = PlanOfOneLength(step, 8);
    EXPECT_EQ(refit.Observe(plan, ComputeTimes(plan, {5'000, 9'000})).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(refit.costs(), Costs());
    EXPECT_THAT(refit.RankSpeeds(), IsEmpty());
    EXPECT_EQ(refit.drift(), 0);
  }
}

}  // namespace
}  // namespace evenstep::coordinator
