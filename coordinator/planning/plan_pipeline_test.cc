#include "coordinator/planning/plan_pipeline.h"

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

void AddSteps(PlanPipeline& pipeline, std::initializer_list<int64_t> steps) {
  for (int64_t step : steps) {
    for (int rank : {0, 1}) {
      ASSERT_TRUE(pipeline.AddLengths(Report(step, rank)).ok());
    }
  }
}

PlanOutcome Plan(const PlanWork& work) {
  return MakeCheckedPlan(work, RealPlanner(), RealClock());
}

class PlanPipelineTest : public ::testing::Test {
 protected:
  PlanPipelineTest() : pipeline_(Spec(), {1, 1}, 5) {}
  PlanPipeline pipeline_;
};

TEST_F(PlanPipelineTest, PlanningWaitsForCostsAndData) {
  AddSteps(pipeline_, {0});
  EXPECT_FALSE(pipeline_.NextWork().has_value());
  pipeline_.SetCosts(Costs());
  EXPECT_FALSE(pipeline_.NextWork().has_value());
  pipeline_.OpenForData();
  EXPECT_TRUE(pipeline_.NextWork().has_value());
}

TEST_F(PlanPipelineTest, GivenCostsNeedNoMeasurement) {
  jobspec::JobSpec spec = Spec();
  spec.costs = Costs();
  PlanPipeline pipeline(spec, {2}, 1);
  pipeline.OpenForData();
  AddSteps(pipeline, {0});
  EXPECT_TRUE(pipeline.NextWork().has_value());
}

TEST_F(PlanPipelineTest, StepsArePlannedInOrderOneAtATime) {
  pipeline_.SetCosts(Costs());
  pipeline_.OpenForData();
  AddSteps(pipeline_, {1, 0});
  const auto first = pipeline_.NextWork();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->step, 0);
  EXPECT_EQ(first->generation, 5);
  EXPECT_FALSE(pipeline_.NextWork().has_value()) << "one at a time";
  const auto plan = pipeline_.Accept(Plan(*first));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ((*plan)->generation(), 5);
  EXPECT_EQ(pipeline_.NextWork()->step, 1);
}

TEST_F(PlanPipelineTest, AnIncompleteStepHoldsLaterOnesBack) {
  pipeline_.SetCosts(Costs());
  pipeline_.OpenForData();
  AddSteps(pipeline_, {1});
  ASSERT_TRUE(pipeline_.AddLengths(Report(0, 1)).ok());
  EXPECT_FALSE(pipeline_.NextWork().has_value());
}

TEST_F(PlanPipelineTest, ReportsAreBoundedByTheLookAhead) {
  EXPECT_TRUE(pipeline_.AddLengths(Report(16, 0)).ok());
  const absl::Status status = pipeline_.AddLengths(Report(17, 0));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("look_ahead is 4"));
}

TEST_F(PlanPipelineTest, StepsOutsideTheJobAreRefused) {
  for (int64_t step : {-1, 40}) {
    EXPECT_EQ(pipeline_.AddLengths(Report(step, 0)).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(PlanPipelineTest, RanksOutsideTheJobAreRefusedForPlannedStepsToo) {
  pipeline_.SetCosts(Costs());
  pipeline_.OpenForData();
  AddSteps(pipeline_, {0});
  ASSERT_TRUE(pipeline_.Accept(Plan(*pipeline_.NextWork())).ok());
  for (int rank : {-1, 2, 77}) {
    for (int64_t step : {0, 1}) {
      EXPECT_EQ(pipeline_.AddLengths(Report(step, rank)).code(),
                absl::StatusCode::kInvalidArgument);
    }
  }
}

TEST_F(PlanPipelineTest, CheckingAReportChangesNothing) {
  EXPECT_TRUE(pipeline_.CheckLengths(Report(0, 0)).ok());
  v1::LengthReport other = Report(0, 0);
  other.set_lengths(0, 20);
  EXPECT_TRUE(pipeline_.AddLengths(other).ok());
  EXPECT_THAT(pipeline_.CheckLengths(Report(0, 0)).message(),
              HasSubstr("differs"));
}

TEST_F(PlanPipelineTest, AStepThatBadCostsCannotPlanTakesTheLastGoodOnes) {
  pipeline_.SetCosts(Costs());
  pipeline_.SetRankSpeeds({1, 0.5});
  pipeline_.OpenForData();
  AddSteps(pipeline_, {0, 1, 2});
  ASSERT_TRUE(pipeline_.Accept(Plan(*pipeline_.NextWork())).ok());
  planner::TimeModel bad = Costs();
  bad.quadratic_ns_per_token2 = 2333.41;
  pipeline_.SetCosts(bad);
  pipeline_.SetRankSpeeds({1, std::nan("")});
  for (int step : {1, 2}) {
    PlanOutcome outcome = Plan(*pipeline_.NextWork());
    EXPECT_FALSE(outcome.estimate_refusal.ok());
    const auto plan = pipeline_.Accept(std::move(outcome));
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ((*plan)->step(), step);
    EXPECT_EQ((*plan)->costs().linear_ns_per_token(), 100);
    EXPECT_EQ((*plan)->rank_speed(1), 0.5);
  }
}

TEST_F(PlanPipelineTest, WithoutGoodCostsAStepIsPlannedWithNominalOnes) {
  planner::TimeModel bad;
  bad.linear_ns_per_token = std::nan("");
  pipeline_.SetCosts(bad);
  pipeline_.OpenForData();
  AddSteps(pipeline_, {0});
  PlanOutcome outcome = Plan(*pipeline_.NextWork());
  EXPECT_FALSE(outcome.estimate_refusal.ok());
  const auto plan = pipeline_.Accept(std::move(outcome));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GT((*plan)->costs().linear_ns_per_token(), 0);
}

TEST_F(PlanPipelineTest, NoStepIsPlannedFarAheadOfTheOldestThatIsNotCommitted) {
  pipeline_.SetCosts(Costs());
  pipeline_.OpenForData();
  int64_t step = 0;
  for (;; ++step) {
    AddSteps(pipeline_, {step});
    const auto work = pipeline_.NextWork();
    if (!work.has_value()) break;
    ASSERT_TRUE(pipeline_.Accept(Plan(*work)).ok());
  }
  EXPECT_EQ(step, 17);  // twice the look-ahead, the slack, and the oldest
  pipeline_.Forget(0);
  EXPECT_TRUE(pipeline_.NextWork().has_value());
}

TEST_F(PlanPipelineTest, PlansAreHeldUntilTheStepIsCommitted) {
  pipeline_.SetCosts(Costs());
  pipeline_.OpenForData();
  AddSteps(pipeline_, {0, 1});
  ASSERT_TRUE(pipeline_.Accept(Plan(*pipeline_.NextWork())).ok());
  ASSERT_TRUE(pipeline_.Accept(Plan(*pipeline_.NextWork())).ok());
  EXPECT_EQ(pipeline_.HeldPlans().size(), 2u);
  EXPECT_TRUE(pipeline_.AddLengths(Report(0, 0)).ok()) << "a repeat";
  pipeline_.Forget(0);
  EXPECT_EQ(pipeline_.Find(0), nullptr);
  EXPECT_EQ(pipeline_.Find(1)->step(), 1);
}

}  // namespace
}  // namespace evenstep::coordinator
