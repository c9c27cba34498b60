// Whole lives of jobs with a fake clock and fake agents, without a network:
// what users ask and what ranks report leads to.

#include <memory>
#include <string>
#include <vector>

#include "coordinator/server/coordinator_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rpc/errors.h"

namespace evenstep::coordinator {
namespace {

using ::testing::HasSubstr;

TEST_F(CoordinatorTest, AJobTrainsAllStepsAndSucceeds) {
  StartJob("job");
  for (int64_t step = 0; step < 6; ++step) {
    if (step + 4 < 6) SendLengths(step + 4);
    ReportStep(step);
  }
  for (int rank : {0, 1}) {
    Say(AgentOf(rank), testing::CleanExit(Id(a_), rank, 6));
  }
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING);
  EndBoth();
  const v1::Job job = Get("job");
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(job.steps_done(), 6);
  EXPECT_EQ(job.weights_path(), "/out/model.safetensors");
  EXPECT_EQ(job.recent_steps_size(), 6);
  EXPECT_EQ(job.totals().steps_after_fourth(), 2);
  EXPECT_EQ(job.totals().steps_with_plan_lead(), 2);
  EXPECT_DOUBLE_EQ(job.totals().coordination_share(), 0.005);
  EXPECT_EQ(job.data().num_samples(), 100);
  EXPECT_TRUE(job.has_costs());
  EXPECT_TRUE(job.has_started() && job.has_ended());
}

TEST_F(CoordinatorTest, ALinkThatOneRankEmulatesLabelsTheJob) {
  StartJob("job");
  EXPECT_EQ(Get("job").emulated_link(), "");
  v1::AgentMessage started = testing::Started(Id(a_), 1);
  started.mutable_started()->set_emulated_link("EMULATED link");
  Say(AgentOf(1), started);
  Settle();
  EXPECT_EQ(Get("job").emulated_link(), "EMULATED link");
}

TEST_F(CoordinatorTest, EveryNodeGetsEveryPlanOnceInOrder) {
  StartJob("job");
  for (const Agent& agent : {a_, b_}) {
    int64_t next = 0;
    for (const auto& message : agent->received) {
      if (!message.has_plan()) continue;
      EXPECT_EQ(message.plan().plan().step(), next++);
      EXPECT_EQ(message.plan().plan().generation(), 1);
    }
    EXPECT_EQ(next, 4);
    EXPECT_EQ(agent->Count(What::kCosts), 1);
  }
}

TEST_F(CoordinatorTest, LaterPlansAreMadeWithCostsThatFollowTheReports) {
  StartJob("job", 12);
  const double first = PlanOf(0).costs().linear_ns_per_token();
  for (int64_t step = 0; step < 8; ++step) {
    SendLengths(step + 4);
    ReportStep(step, /*slowness=*/1.8);
  }
  EXPECT_EQ(PlanOf(3).costs().linear_ns_per_token(), first)
      << "a plan that was made already";
  // All steps are alike, so how the times split over the costs is open; what
  // a micro-batch takes is not.
  const auto predicted = [this](int64_t step) {
    return static_cast<double>(PlanOf(step).predicted_step_ns());
  };
  EXPECT_NEAR(predicted(11) / predicted(0), 1.8, 0.1);
  EXPECT_NEAR(Get("job").totals().cost_drift(), 0.8, 0.01);
  EXPECT_EQ(Get("job").costs().linear_ns_per_token(), first);
}

TEST_F(CoordinatorTest, AJobMayKeepItsCosts) {
  a_ = Join("a");
  b_ = Join("b");
  v1::SubmitRequest request = testing::SmallJob("job", 2, 12);
  request.mutable_spec()->set_keep_costs(true);
  ASSERT_TRUE(coordinator_->Submit(request).ok());
  Settle();
  StartRanks();
  for (int64_t step = 0; step < 8; ++step) {
    SendLengths(step + 4);
    ReportStep(step, /*slowness=*/1.8);
  }
  EXPECT_EQ(PlanOf(11).costs().linear_ns_per_token(),
            PlanOf(0).costs().linear_ns_per_token());
  EXPECT_EQ(Get("job").totals().cost_drift(), 0);
}

TEST_F(CoordinatorTest, ASubmitIsIdempotentAndAnotherSpecIsRefused) {
  Submit("job");
  const auto again = coordinator_->Submit(testing::SmallJob("job", 2, 6));
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->created());
  const auto other = coordinator_->Submit(testing::SmallJob("job", 2, 7));
  EXPECT_EQ(other.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(rpc::ReasonOf(other.status()), "JOB_EXISTS_WITH_OTHER_SPEC");
}

TEST_F(CoordinatorTest, WhatCanNeverFitIsRefusedWithTheNumbers) {
  v1::SubmitRequest request = testing::SmallJob("job", 2, 6);
  request.mutable_spec()->mutable_data()->set_max_length(129);
  const auto refused = coordinator_->Submit(request);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(rpc::ReasonOf(refused.status()), "INFEASIBLE_PLAN");
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("129"));
}

TEST_F(CoordinatorTest, BadIdsAreRefused) {
  for (const char* id : {"", "1a", "A", "a_b", "-a"}) {
    EXPECT_EQ(coordinator_->Submit(testing::SmallJob(id, 2, 6)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << id;
  }
}

TEST_F(CoordinatorTest, AnEmptySpecIsRefused) {
  v1::SubmitRequest request;
  request.set_job_id("job");
  EXPECT_EQ(coordinator_->Submit(request).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorTest, HalfAGangHoldsNoSlots) {
  a_ = Join("a");
  Submit("pair");
  EXPECT_EQ(Get("pair").state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Get("pair").reason(), "NO_CAPACITY");
  EXPECT_EQ(Get("pair").queue_position(), 1);
  Submit("single", 6, 1);
  // The pair is larger than the cluster, so it holds nobody up.
  EXPECT_EQ(Get("single").state(), v1::JOB_STATE_STARTING);
}

TEST_F(CoordinatorTest, AKilledTrainerIsTheReasonThoughAPeerSpokeFirst) {
  StartJob("job");
  Say(a_, testing::CollectiveFailed(Id(a_), 0));
  Settle();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
  Say(b_, testing::Killed(Id(a_), 1, 9));
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING);
  for (const Agent& agent : {a_, b_}) {
    EXPECT_EQ(agent->Last(What::kAbandon).abandon().next_generation(), 0);
    EXPECT_EQ(agent->Count(What::kAbandon), 1);
  }
  Say(a_, testing::Killed(Id(a_), 0, 9));  // by its agent, as it was told
  Say(a_, testing::Ended(Id(a_)));
  Settle();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING) << "b may still live";
  Submit("next");
  EXPECT_EQ(Get("next").state(), v1::JOB_STATE_QUEUED) << "slots are held";
  Say(b_, testing::Ended(Id(a_)));
  Settle();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(Get("job").reason(), "TRAINER_KILLED");
  EXPECT_EQ(Get("job").message(), "rank 1 (b) ended by signal 9");
  EXPECT_EQ(Get("next").state(), v1::JOB_STATE_STARTING);
}

TEST_F(CoordinatorTest, AnAttemptThatDoesNotEndIsToldAgainAndAgain) {
  StartJob("job");
  Say(b_, testing::Killed(Id(a_), 1, 9));
  Pass(absl::Seconds(4), {a_, b_});
  EXPECT_EQ(a_->Count(What::kEnd), 0);
  Pass(absl::Seconds(6), {a_, b_});
  EXPECT_GE(a_->Count(What::kEnd), 2);
}

TEST_F(CoordinatorTest, ACancelTakesEffectAtTheGate) {
  StartJob("job", 100);
  Cancel("job");
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING);
  EXPECT_EQ(a_->Count(What::kStop), 1);
  EXPECT_EQ(a_->Count(What::kEnd), 0);
  for (int rank : {0, 1}) {
    Say(AgentOf(rank), testing::CleanExit(Id(a_), rank, 3));
  }
  EndBoth();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_CANCELLED);
  Cancel("job");  // idempotent
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_CANCELLED);
}

TEST_F(CoordinatorTest, ACancelBeforeTheFirstGateEndsTheAttemptAtOnce) {
  a_ = Join("a");
  b_ = Join("b");
  Submit("job");
  Cancel("job");
  for (const Agent& agent : {a_, b_}) {
    EXPECT_EQ(agent->Count(What::kStop), 0) << "no rank reaches a gate";
    EXPECT_EQ(agent->Count(What::kEnd), 1);
  }
  EndBoth();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_CANCELLED);
}

TEST_F(CoordinatorTest, AQueuedJobIsCancelledAtOnce) {
  Submit("job");
  Cancel("job");
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_CANCELLED);
}

TEST_F(CoordinatorTest, ALongCancelMessageIsCutBetweenCharacters) {
  Submit("job");
  const std::string fits(4095, 'a');
  v1::CancelRequest request;
  request.set_job_id("job");
  request.set_message(fits + "\xc3\xa9");
  ASSERT_TRUE(coordinator_->Cancel(request).ok());
  EXPECT_EQ(Get("job").message(), fits);
}

TEST_F(CoordinatorTest, ALongReasonOfAFailureIsCutBetweenCharacters) {
  StartJob("job");
  auto message = testing::Killed(Id(a_), 1, 9);
  message.mutable_exited()->set_message(std::string(8191, 'a') + "\xc3\xa9");
  Say(b_, message);
  Pass(absl::Seconds(10), {a_, b_});
  EndBoth();
  EXPECT_THAT(Get("job").message(), ::testing::HasSubstr("aaa"));
  v1::Job parsed;  // what is not UTF-8 cannot be parsed
  EXPECT_TRUE(parsed.ParseFromString(Get("job").SerializeAsString()));
}

TEST_F(CoordinatorTest, AnOldGenerationIsRefusedAndCounted) {
  StartJob("job", 100);
  v1::AttemptId old = Id(a_);
  old.set_generation(0);
  Say(a_, testing::Lengths(old, 0, 2, 4));
  v1::AgentMessage report = testing::Lengths(Id(a_), 0, 2, 4);
  report.mutable_lengths()->mutable_report()->set_generation(0);
  Say(a_, report);
  Say(b_, testing::Lengths(Id(a_), 1, 2, 4));
  Settle();
  EXPECT_EQ(a_->Count(What::kPlan), 4) << "step 4 is not complete";
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
  EXPECT_THAT(MetricsText(),
              HasSubstr("evenstep_stale_messages_total{kind=\"lengths\"} 2"));
}

TEST_F(CoordinatorTest, RanksThatSeeOtherDataFailTheJob) {
  a_ = Join("a");
  b_ = Join("b");
  Submit("job");
  Say(a_, testing::Data(Id(a_), 0));
  v1::AgentMessage other = testing::Data(Id(a_), 1);
  other.mutable_data()->mutable_data()->set_content_key(8);
  Say(b_, other);
  EXPECT_EQ(Get("job").reason(), "DATA_MISMATCH");
  EXPECT_THAT(Get("job").message(), HasSubstr("rank 1 (b)"));
}

TEST_F(CoordinatorTest, ARankThatReportsAForeignShareFailsTheJob) {
  StartJob("job", 100);
  Say(a_, testing::Lengths(Id(a_), 1, 2, 4));
  EXPECT_EQ(Get("job").reason(), "INVALID_REPORT");
}

TEST_F(CoordinatorTest, RanksThatDoNotStartInTimeAreNamed) {
  a_ = Join("a");
  b_ = Join("b");
  Submit("job");
  for (const Agent& agent : {a_, b_}) Say(agent, testing::Ready(Id(a_)));
  Say(a_, testing::Started(Id(a_), 0));
  Pass(absl::Seconds(61), {a_, b_});
  EXPECT_EQ(Get("job").reason(), "START_TIMEOUT");
  EXPECT_THAT(Get("job").message(), HasSubstr("ranks 1 did not"));
}

TEST_F(CoordinatorTest, ARefusedPlanIsReplacedByStaticAndCounted) {
  planner_.check = [](const planner::PlanRequest& request,
                      const planner::Plan&) -> absl::Status {
    return request.options.policy == planner::Policy::kStatic
               ? absl::OkStatus()
               : absl::InternalError("planted");
  };
  Restart();
  StartJob("job");
  EXPECT_EQ(PlanOf(0).policy(), "static");
  ReportStep(0);
  EXPECT_EQ(Get("job").totals().plans_refused(), 4);
  EXPECT_THAT(MetricsText(), HasSubstr("evenstep_plan_rejected_total{"));
}

TEST_F(CoordinatorTest, APlanThatCannotBeFailsTheJobWithTheReason) {
  planner_.make =
      [](const planner::PlanRequest&) -> absl::StatusOr<planner::Plan> {
    return absl::FailedPreconditionError("planted: 70 tokens, 64 fit");
  };
  Restart();
  a_ = Join("a");
  b_ = Join("b");
  Submit("job");
  StartRanks();
  EXPECT_EQ(Get("job").reason(), "INFEASIBLE_PLAN");
  EXPECT_THAT(Get("job").message(), HasSubstr("70 tokens"));
}

TEST_F(CoordinatorTest, ShutdownAdmitsNothingAndLeavesJobsAsTheyAre) {
  StartJob("job", 100);
  coordinator_->Shutdown();
  const auto refused = coordinator_->Submit(testing::SmallJob("late", 1, 6));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(rpc::ReasonOf(refused.status()), "SHUTTING_DOWN");
  EXPECT_EQ(a_->closed.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
}

TEST_F(CoordinatorTest, AJobsSeriesGoAfterItsEnd) {
  StartJob("job", 1);
  ReportStep(0);
  EXPECT_THAT(
      MetricsText(),
      HasSubstr(
          "evenstep_step_imbalance_ratio{job=\"job\",kind=\"measured\"}"));
  for (int rank : {0, 1}) {
    Say(AgentOf(rank), testing::CleanExit(Id(a_), rank, 1));
  }
  EndBoth();
  EXPECT_THAT(MetricsText(), HasSubstr("{job=\"job\"}"));
  Pass(absl::Minutes(6), {a_, b_});
  EXPECT_THAT(MetricsText(), ::testing::Not(HasSubstr("{job=\"job\"}")));
}

}  // namespace
}  // namespace evenstep::coordinator
