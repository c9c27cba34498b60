#include "coordinator/steps/job_steps.h"

#include <cmath>
#include <initializer_list>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

using ::testing::HasSubstr;

jobspec::JobSpec Spec() {
  jobspec::JobSpec spec;
  spec.ranks = 2;
  spec.batch_samples = 2;
  spec.steps = 40;
  spec.look_ahead = 4;
  spec.data.max_length = 64;
  spec.model.kv_heads = spec.model.heads;
  spec.memory.tokens_per_rank = 64;
  return spec;
}

planner::TimeModel Costs() {
  planner::TimeModel costs;
  costs.linear_ns_per_token = 100;
  return costs;
}

v1::LengthReport Report(int64_t step, int rank) {
  v1::LengthReport report;
  report.set_step(step);
  report.set_rank(rank);
  report.add_sample_ids(step * 2 + rank);
  report.add_lengths(10 + rank);
  report.add_trained_tokens(10 + rank);
  return report;
}

void AddSteps(JobSteps& job, std::initializer_list<int64_t> steps) {
  for (int64_t step : steps) {
    for (int rank : {0, 1}) {
      ASSERT_TRUE(job.AddLengths(Report(step, rank)).ok());
    }
  }
}

PlanOutcome Plan(const PlanWork& work) {
  return PlanStep(work, planner::RealPlanner(), RealClock());
}

class JobStepsTest : public ::testing::Test {
 protected:
  JobStepsTest() : steps_(Spec(), {1, 1}, 5) {}
  JobSteps steps_;
};

TEST_F(JobStepsTest, PlanningWaitsForCostsAndData) {
  AddSteps(steps_, {0});
  EXPECT_FALSE(steps_.NextWork().has_value());
  steps_.SetCosts(Costs());
  EXPECT_FALSE(steps_.NextWork().has_value());
  steps_.OpenForData();
  EXPECT_TRUE(steps_.NextWork().has_value());
}

TEST_F(JobStepsTest, GivenCostsNeedNoMeasurement) {
  jobspec::JobSpec spec = Spec();
  spec.costs = Costs();
  JobSteps job(spec, {2}, 1);
  job.OpenForData();
  AddSteps(job, {0});
  EXPECT_TRUE(job.NextWork().has_value());
}

TEST_F(JobStepsTest, StepsArePlannedInOrderOneAtATime) {
  steps_.SetCosts(Costs());
  steps_.OpenForData();
  AddSteps(steps_, {1, 0});
  const auto first = steps_.NextWork();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->step, 0);
  EXPECT_EQ(first->generation, 5);
  EXPECT_FALSE(steps_.NextWork().has_value()) << "one at a time";
  const auto plan = steps_.Accept(Plan(*first));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ((*plan)->generation(), 5);
  EXPECT_EQ(steps_.NextWork()->step, 1);
}

TEST_F(JobStepsTest, AnIncompleteStepHoldsLaterOnesBack) {
  steps_.SetCosts(Costs());
  steps_.OpenForData();
  AddSteps(steps_, {1});
  ASSERT_TRUE(steps_.AddLengths(Report(0, 1)).ok());
  EXPECT_FALSE(steps_.NextWork().has_value());
}

TEST_F(JobStepsTest, ReportsAreBoundedByTheLookAhead) {
  EXPECT_TRUE(steps_.AddLengths(Report(16, 0)).ok());
  const absl::Status status = steps_.AddLengths(Report(17, 0));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("look_ahead is 4"));
}

TEST_F(JobStepsTest, StepsOutsideTheJobAreRefused) {
  for (int64_t step : {-1, 40}) {
    EXPECT_EQ(steps_.AddLengths(Report(step, 0)).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(JobStepsTest, RanksOutsideTheJobAreRefusedForPlannedStepsToo) {
  steps_.SetCosts(Costs());
  steps_.OpenForData();
  AddSteps(steps_, {0});
  ASSERT_TRUE(steps_.Accept(Plan(*steps_.NextWork())).ok());
  for (int rank : {-1, 2, 77}) {
    for (int64_t step : {0, 1}) {
      EXPECT_EQ(steps_.AddLengths(Report(step, rank)).code(),
                absl::StatusCode::kInvalidArgument);
    }
  }
}

TEST_F(JobStepsTest, CheckingAReportChangesNothing) {
  EXPECT_TRUE(steps_.CheckLengths(Report(0, 0)).ok());
  v1::LengthReport other = Report(0, 0);
  other.set_lengths(0, 20);
  EXPECT_TRUE(steps_.AddLengths(other).ok());
  EXPECT_THAT(steps_.CheckLengths(Report(0, 0)).message(),
              HasSubstr("differs"));
}

TEST_F(JobStepsTest, AStepThatBadCostsCannotPlanTakesTheLastGoodOnes) {
  steps_.SetCosts(Costs());
  steps_.SetRankSpeeds({1, 0.5});
  steps_.OpenForData();
  AddSteps(steps_, {0, 1, 2});
  ASSERT_TRUE(steps_.Accept(Plan(*steps_.NextWork())).ok());
  planner::TimeModel bad = Costs();
  bad.quadratic_ns_per_token2 = 2333.41;
  steps_.SetCosts(bad);
  steps_.SetRankSpeeds({1, std::nan("")});
  for (int step : {1, 2}) {
    PlanOutcome outcome = Plan(*steps_.NextWork());
    EXPECT_FALSE(outcome.estimate_refusal.ok());
    const auto plan = steps_.Accept(std::move(outcome));
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ((*plan)->step(), step);
    EXPECT_EQ((*plan)->costs().linear_ns_per_token(), 100);
    EXPECT_EQ((*plan)->rank_speed(1), 0.5);
  }
}

TEST_F(JobStepsTest, WithoutGoodCostsAStepIsPlannedWithNominalOnes) {
  planner::TimeModel bad;
  bad.linear_ns_per_token = std::nan("");
  steps_.SetCosts(bad);
  steps_.OpenForData();
  AddSteps(steps_, {0});
  PlanOutcome outcome = Plan(*steps_.NextWork());
  EXPECT_FALSE(outcome.estimate_refusal.ok());
  const auto plan = steps_.Accept(std::move(outcome));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GT((*plan)->costs().linear_ns_per_token(), 0);
}

TEST_F(JobStepsTest, NoStepIsPlannedFarAheadOfTheOldestThatIsNotCommitted) {
  steps_.SetCosts(Costs());
  steps_.OpenForData();
  int64_t step = 0;
  for (;; ++step) {
    AddSteps(steps_, {step});
    const auto work = steps_.NextWork();
    if (!work.has_value()) break;
    ASSERT_TRUE(steps_.Accept(Plan(*work)).ok());
  }
  EXPECT_EQ(step, 17);  // twice the look-ahead, the slack, and the oldest
  steps_.Forget(0);
  EXPECT_TRUE(steps_.NextWork().has_value());
}

TEST_F(JobStepsTest, PlansAreHeldUntilTheStepIsCommitted) {
  steps_.SetCosts(Costs());
  steps_.OpenForData();
  AddSteps(steps_, {0, 1});
  ASSERT_TRUE(steps_.Accept(Plan(*steps_.NextWork())).ok());
  ASSERT_TRUE(steps_.Accept(Plan(*steps_.NextWork())).ok());
  EXPECT_EQ(steps_.HeldPlans().size(), 2u);
  EXPECT_TRUE(steps_.AddLengths(Report(0, 0)).ok()) << "a repeat";
  steps_.Forget(0);
  EXPECT_EQ(steps_.Find(0), nullptr);
  EXPECT_EQ(steps_.Find(1)->step(), 1);
}

}  // namespace
}  // namespace evenstep::coordinator
