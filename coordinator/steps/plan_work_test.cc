#include "coordinator/steps/plan_work.h"

#include <algorithm>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "coordinator/steps/planner_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/planner.h"
#include "wire/job_spec_proto.h"

namespace evenstep::coordinator {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

PlanWork Work(planner::Policy policy) {
  PlanWork work;
  work.generation = 3;
  work.step = 9;
  work.request.samples = {{0, 100, 100}, {1, 40, 40}, {2, 30, 30}};
  work.request.run.max_length = 100;
  work.request.cluster.ranks_per_node = {2};
  work.request.model.num_layers = 2;
  work.request.model.width = 8;
  work.request.model.heads = 2;
  work.request.model.kv_heads = 2;
  work.request.time.linear_ns_per_token = 10;
  work.request.memory.tokens_per_rank = 100;
  work.request.options.policy = policy;
  return work;
}

TEST(PlanStepTest, APlanThatHoldsIsSentWithItsGenerationAndStep) {
  const PlanOutcome outcome = PlanStep(Work(planner::Policy::kEven),
                                       planner::RealPlanner(), RealClock());
  ASSERT_TRUE(outcome.plan.ok()) << outcome.plan.status();
  EXPECT_TRUE(outcome.refusal.ok());
  EXPECT_EQ(outcome.plan->generation(), 3);
  EXPECT_EQ(outcome.plan->step(), 9);
  EXPECT_EQ(outcome.plan->world(), 2);
  EXPECT_EQ(outcome.plan->policy(), "even");
  EXPECT_EQ(outcome.plan->trained_tokens(), 170);
}

TEST(PlanStepTest, APlanSaysWithWhatItCanBeMadeAgain) {
  PlanWork work = Work(planner::Policy::kEven);
  work.request.time.quadratic_ns_per_token2 = 0.25;
  work.request.time.head_ns_per_token = 3;
  work.request.cluster.rank_speed = {1, 0.5};
  const PlanOutcome outcome =
      PlanStep(work, planner::RealPlanner(), RealClock());
  ASSERT_TRUE(outcome.plan.ok()) << outcome.plan.status();
  PlanWork again = Work(planner::Policy::kEven);
  again.request.time = *wire::FromProto(outcome.plan->costs());
  again.request.cluster.rank_speed.assign(outcome.plan->rank_speed().begin(),
                                          outcome.plan->rank_speed().end());
  const PlanOutcome same = PlanStep(again, planner::RealPlanner(), RealClock());
  ASSERT_TRUE(same.plan.ok()) << same.plan.status();
  EXPECT_EQ(same.plan->SerializeAsString(), outcome.plan->SerializeAsString());
}

// 40 steps of uneven lengths, planned on a pool; plans as bytes, by step.
std::vector<std::string> PlanFortySteps(int num_threads) {
  constexpr int kSteps = 40;
  std::vector<std::string> plans(kSteps);
  absl::BlockingCounter left(kSteps);
  PlannerPool pool(num_threads);
  for (int step = 0; step < kSteps; ++step) {
    pool.Run([&plans, &left, step] {
      PlanWork work = Work(static_cast<planner::Policy>(step % 8));
      work.step = step;
      work.request.cluster.ranks_per_node = {4, 4};
      work.request.model.heads = work.request.model.kv_heads = 8;
      work.request.samples.clear();
      for (int64_t i = 0; i < 48; ++i) {
        const int64_t length =
            1 + (i * i * 31 + step * 17) % (i % 9 == 0 ? 400 : 90);
        work.request.samples.push_back({i, length, length});
      }
      work.request.run.max_length = 400;
      work.request.time.quadratic_ns_per_token2 = 0.5;
      const PlanOutcome outcome =
          PlanStep(work, planner::RealPlanner(), RealClock());
      if (outcome.plan.ok()) plans[step] = outcome.plan->SerializeAsString();
      left.DecrementCount();
    });
  }
  left.Wait();
  return plans;
}

// Neither threads nor the order in which they come matter.
TEST(PlanStepTest, OneThreadAndSixteenMakeTheSamePlans) {
  const std::vector<std::string> one = PlanFortySteps(1);
  EXPECT_THAT(one, Each(Not(IsEmpty())));
  EXPECT_EQ(one, PlanFortySteps(16));
}

TEST(PlanStepTest, TheShareOfRecomputedLayersIsSaid) {
  PlanWork work = Work(planner::Policy::kEven);
  work.request.options.recompute_layers = 1;  // of 2
  const PlanOutcome outcome =
      PlanStep(work, planner::RealPlanner(), RealClock());
  ASSERT_TRUE(outcome.plan.ok()) << outcome.plan.status();
  EXPECT_DOUBLE_EQ(outcome.plan->recompute_ratio(), 0.5);
}

TEST(PlanStepTest, ACorruptedPlanIsReplacedByStaticAndSaysWhy) {
  planner::PlannerFunctions planted = planner::RealPlanner();
  planted.make = [](const planner::PlanRequest& request) {
    auto plan = planner::MakePlan(request);
    if (plan.ok() && request.options.policy == planner::Policy::kEven) {
      plan->micro_batches.front().samples.pop_back();  // a sample is lost
    }
    return plan;
  };
  const PlanOutcome outcome =
      PlanStep(Work(planner::Policy::kEven), planted, RealClock());
  ASSERT_TRUE(outcome.plan.ok()) << outcome.plan.status();
  EXPECT_FALSE(outcome.refusal.ok());
  EXPECT_EQ(outcome.plan->policy(), "static");
}

// 100 tokens of 10 bytes fit nowhere unless both layers run again.
TEST(PlanStepTest, StaticRecomputesWhatItMustWhereThePlanChooses) {
  PlanWork work = Work(planner::Policy::kEven);
  work.request.memory = {};
  work.request.memory.activation_bytes = 700;
  work.request.memory.layer_bytes_per_token = 10;
  work.request.memory.kept_bytes_per_token = 1;
  work.request.options.recompute_choices = {0, 2};
  planner::PlannerFunctions planted = planner::RealPlanner();
  planted.make =
      [](const planner::PlanRequest& request) -> absl::StatusOr<planner::Plan> {
    if (request.options.policy == planner::Policy::kEven) {
      return absl::InternalError("planted");
    }
    return planner::MakePlan(request);
  };
  const PlanOutcome outcome = PlanStep(work, planted, RealClock());
  ASSERT_TRUE(outcome.plan.ok()) << outcome.plan.status();
  EXPECT_EQ(outcome.plan->policy(), "static");
  EXPECT_DOUBLE_EQ(outcome.plan->recompute_ratio(), 1);
}

TEST(PlanStepTest, APolicyThatFailsIsReplacedByStatic) {
  planner::PlannerFunctions planted = planner::RealPlanner();
  planted.make =
      [](const planner::PlanRequest& request) -> absl::StatusOr<planner::Plan> {
    if (request.options.policy == planner::Policy::kPacked) {
      return absl::InternalError("planted");
    }
    return planner::MakePlan(request);
  };
  const PlanOutcome outcome =
      PlanStep(Work(planner::Policy::kPacked), planted, RealClock());
  ASSERT_TRUE(outcome.plan.ok());
  EXPECT_THAT(outcome.refusal.message(), HasSubstr("planted"));
}

// Head counts belong to the job. Two jobs are planned by the same
// threads, in turns; one's heads allow pairs, the other's groups of three.
TEST(PlanStepTest, TwoJobsKeepTheirOwnHeads) {
  constexpr int kSteps = 40;
  const auto work = [](int step) {
    PlanWork job = Work(planner::Policy::kEven);
    job.step = step;
    job.request.model.heads = job.request.model.kv_heads = 2 + step % 2;
    job.request.cluster.ranks_per_node = {6};
    job.request.options.blocks = planner::BlockShape::kContiguous;
    job.request.memory.tokens_per_rank = 50;  // 100 are on 2 or 3 ranks
    return job;
  };
  std::vector<PlanOutcome> outcomes(kSteps);
  {
    PlannerPool pool(3);
    absl::BlockingCounter left(kSteps);
    for (int step = 0; step < kSteps; ++step) {
      pool.Run([&, step] {
        outcomes[step] =
            PlanStep(work(step), planner::RealPlanner(), RealClock());
        left.DecrementCount();
      });
    }
    left.Wait();
  }
  for (int step = 0; step < kSteps; ++step) {
    ASSERT_TRUE(outcomes[step].plan.ok()) << outcomes[step].plan.status();
    EXPECT_TRUE(outcomes[step].refusal.ok()) << outcomes[step].refusal;
    int highest = 0;
    for (const v1::MicroBatch& m : outcomes[step].plan->micro_batches()) {
      highest = std::max(highest, m.degree());
    }
    EXPECT_EQ(highest, 2 + step % 2);
  }
}

// Costs that no plan may be made with.
planner::TimeModel BadCosts() {
  planner::TimeModel costs;
  costs.linear_ns_per_token = 10;
  costs.quadratic_ns_per_token2 = 2333.41;
  return costs;
}

TEST(PlanStepTest, CostsThatNothingCanBePlannedWithAreReplacedByEarlier) {
  PlanWork work = Work(planner::Policy::kEven);
  const planner::TimeModel good = work.request.time;
  work.request.time = BadCosts();
  work.earlier = {{BadCosts(), {}}, {good, {1, 0.5}}};
  const PlanOutcome outcome =
      PlanStep(work, planner::RealPlanner(), RealClock());
  ASSERT_TRUE(outcome.plan.ok()) << outcome.plan.status();
  EXPECT_THAT(outcome.estimate_refusal.message(), HasSubstr("2333.41"));
  EXPECT_TRUE(outcome.refusal.ok()) << outcome.refusal;
  EXPECT_EQ(outcome.plan->policy(), "even");
  EXPECT_EQ(outcome.used.costs, good);
  EXPECT_EQ(outcome.plan->costs().quadratic_ns_per_token2(), 0);
  EXPECT_EQ(outcome.plan->rank_speed(1), 0.5);
}

TEST(PlanStepTest, WithoutEarlierCostsTheReasonIsThatOfTheNewest) {
  PlanWork work = Work(planner::Policy::kEven);
  work.request.time = BadCosts();
  const PlanOutcome outcome =
      PlanStep(work, planner::RealPlanner(), RealClock());
  EXPECT_THAT(outcome.plan.status().message(), HasSubstr("2333.41"));
  EXPECT_TRUE(outcome.estimate_refusal.ok());
}

TEST(PlanStepTest, WhatDoesNotFitIsNotTriedWithOtherCosts) {
  PlanWork work = Work(planner::Policy::kEven);
  work.request.memory.tokens_per_rank = 20;
  int num_made = 0;
  planner::PlannerFunctions counted = planner::RealPlanner();
  counted.make = [&num_made](const planner::PlanRequest& request) {
    ++num_made;
    return planner::MakePlan(request);
  };
  work.earlier = {{work.request.time, {}}};
  const PlanOutcome outcome = PlanStep(work, counted, RealClock());
  EXPECT_EQ(outcome.plan.status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(num_made, 2);  // even, static
}

TEST(PlanStepTest, WhatCannotFitIsAnErrorWithNumbers) {
  PlanWork work = Work(planner::Policy::kEven);
  work.request.memory.tokens_per_rank = 20;
  const PlanOutcome outcome =
      PlanStep(work, planner::RealPlanner(), RealClock());
  EXPECT_EQ(outcome.plan.status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(outcome.plan.status().message(), HasSubstr("100"));
}

}  // namespace
}  // namespace evenstep::coordinator
