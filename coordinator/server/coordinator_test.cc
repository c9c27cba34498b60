// Whole lives of jobs with a fake clock and fake agents, without a network:
// what users ask and what ranks report leads to.

#include <algorithm>
#include <climits>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/server/coordinator_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/planner.h"
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
  EXPECT_EQ(job.weights_node(), "a");
  EXPECT_EQ(job.weights_steps(), 6);
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

TEST_F(CoordinatorTest, WhyAJobWaitsFollowsTheQueueAndTheNodes) {
  Submit("huge", 6, 9);
  Submit("first", 6, 1);
  Submit("second", 6, 1);
  EXPECT_EQ(Get("first").reason(), "NO_CAPACITY");
  a_ = Join("a");
  EXPECT_EQ(Get("first").state(), v1::JOB_STATE_STARTING);
  EXPECT_EQ(Get("first").queue_position(), 0);
  Submit("third", 6, 1);
  EXPECT_EQ(Get("huge").queue_position(), 1);
  EXPECT_EQ(Get("second").reason(), "NO_CAPACITY");
  EXPECT_EQ(Get("third").reason(), "BEHIND_PRIORITY");
  EXPECT_EQ(Get("third").queue_position(), 3);
  Cancel("second");
  EXPECT_EQ(Get("second").queue_position(), 0);
  EXPECT_EQ(Get("second").reason(), "CANCELLED");
  EXPECT_EQ(Get("third").reason(), "NO_CAPACITY");
  EXPECT_EQ(Get("third").queue_position(), 2);
  Restart();
  EXPECT_EQ(Get("third").queue_position(), 2);
  EXPECT_EQ(Get("third").reason(), "SETTLING");
}

// Records that calls look at, not their time: a submit, a tick and a page of a
// list cost the same beside a thousand waiting jobs as beside ten.
TEST_F(CoordinatorTest, WorkDoesNotGrowWithTheQueue) {
  a_ = Join("a");
  int submitted = 0;
  const auto submit = [&] {
    const std::string id = absl::StrCat("job-", submitted++);
    ASSERT_TRUE(coordinator_->Submit(testing::SmallJob(id, 1, 6)).ok());
  };
  v1::ListRequest page;
  page.set_page_size(5);
  // The least of three: every half minute a tick looks for finished jobs.
  const auto work_of_one_more = [&] {
    int64_t least = INT64_MAX;
    for (int i = 0; i < 3; ++i) {
      const int64_t before = coordinator_->book().num_visited();
      submit();
      clock_.Advance(absl::Milliseconds(250));  // gauges are due
      coordinator_->Tick();
      EXPECT_EQ(coordinator_->List(page)->jobs_size(), 5);
      least = std::min(least, coordinator_->book().num_visited() - before);
    }
    return least;
  };
  while (submitted < 10) submit();
  const int64_t beside_ten = work_of_one_more();
  while (submitted < 1000) submit();
  const int64_t beside_a_thousand = work_of_one_more();
  EXPECT_EQ(Get(absl::StrCat("job-", submitted - 1)).queue_position(),
            submitted - 1)
      << "one has started";
  // A search in the sorted queue for each of the six jobs that are shown.
  EXPECT_LE(beside_a_thousand, beside_ten + 6 * 8);
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

TEST_F(CoordinatorTest, TheLowestRankThatLivesWritesTheWeights) {
  StartJob("first");
  Say(b_, testing::Killed(Id(a_), 1, 9));
  EXPECT_EQ(a_->Last(What::kAbandon).abandon().weights_rank(), 0);
  EndBoth();
  StartJob("second");
  Say(a_, testing::Killed(Id(a_), 0, 9));
  for (const Agent& agent : {a_, b_}) {
    EXPECT_EQ(agent->Last(What::kAbandon).abandon().weights_rank(), 1);
  }
  v1::AgentMessage exited = testing::Killed(Id(a_), 1, 0);
  exited.mutable_exited()->set_weights_path("/out/model.rank-1.safetensors");
  exited.mutable_exited()->set_weights_steps(3);
  Say(b_, exited);
  EndBoth();
  const v1::Job job = Get("second");
  EXPECT_EQ(job.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.weights_path(), "/out/model.rank-1.safetensors");
  EXPECT_EQ(job.weights_node(), "b");
  EXPECT_EQ(job.weights_steps(), 3);
  EXPECT_EQ(job.weights_note(), "");
}

TEST_F(CoordinatorTest, AJobWithoutWeightsSaysWhy) {
  StartJob("job");
  v1::AgentMessage exited = testing::Killed(Id(a_), 0, 9);
  exited.mutable_exited()->set_weights_note("the disk is full");
  Say(a_, exited);
  EndBoth();
  EXPECT_EQ(Get("job").weights_note(), "the disk is full");
  EXPECT_EQ(Get("job").weights_path(), "");
}

TEST_F(CoordinatorTest, AJobWhoseProcessesWereAllKilledSaysSo) {
  StartJob("job");
  Say(a_, testing::Killed(Id(a_), 0, 9));
  Say(b_, testing::Killed(Id(a_), 1, 9));
  EndBoth();
  EXPECT_EQ(Get("job").weights_path(), "");
  EXPECT_EQ(Get("job").weights_note(), "no step was done");
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
  EXPECT_EQ(Get("job").weights_steps(), 3);
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

TEST_F(CoordinatorTest, ANodeThatSpeaksForForeignRanksChangesNothing) {
  StartJob("job", 100);
  const std::string before = Get("job").SerializeAsString();
  for (int rank : {1, 2, 77, -5, INT_MAX}) {
    for (int64_t step : {0, 4}) {  // planned, and not yet
      v1::AgentMessage lengths = testing::Lengths(Id(a_), 1, 2, step);
      lengths.mutable_lengths()->mutable_report()->set_rank(rank);
      Say(a_, lengths);
    }
    Say(a_, testing::Data(Id(a_), rank));
    Say(a_, testing::Started(Id(a_), rank));
    Say(a_, testing::Killed(Id(a_), rank, 9));
    Say(a_, testing::CollectiveFailed(Id(a_), rank));
    Say(a_, testing::Log(Id(a_), rank, "line"));
  }
  Settle();
  EXPECT_EQ(Get("job").SerializeAsString(), before);
  EXPECT_EQ(store_->ReadLog("job", 0, 10)->lines.size(), 0u);
  EXPECT_THAT(MetricsText(), HasSubstr("evenstep_refused_messages_total{kind="
                                       "\"lengths\",reason=\"rank\"} 10"));
  SendLengths(4);
  EXPECT_EQ(a_->Count(What::kPlan), 5) << "the job goes on";
}

TEST_F(CoordinatorTest, OneNodeCannotFinishAJobForAnother) {
  StartJob("job", 1);
  ReportStep(0);
  for (int rank : {0, 1}) Say(a_, testing::CleanExit(Id(a_), rank, 1));
  Say(a_, testing::Ended(Id(a_)));
  Settle();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
  Say(b_, testing::Killed(Id(a_), 1, 9));
  Say(b_, testing::CleanExit(Id(a_), 1, 1));  // a process ends once
  Say(b_, testing::Ended(Id(a_)));
  Settle();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(Get("job").reason(), "TRAINER_KILLED");
}

TEST_F(CoordinatorTest, ARankWhoseOwnReportCannotBeTrueFailsTheJob) {
  StartJob("job", 100);
  v1::AgentMessage message = testing::Lengths(Id(a_), 0, 2, 4);
  message.mutable_lengths()->mutable_report()->set_lengths(0, 1000);
  Say(a_, message);
  EXPECT_EQ(Get("job").reason(), "INVALID_REPORT");
  EXPECT_THAT(Get("job").message(), HasSubstr("length 1000"));
}

TEST_F(CoordinatorTest, AnAgentThatIsRefusedAllTheTimeLosesItsStream) {
  StartJob("job", 100);
  for (int i = 0; i < 99; ++i) Say(b_, testing::Started(Id(a_), 0));
  EXPECT_TRUE(b_->closed.ok());
  Say(b_, testing::Started(Id(a_), 0));
  EXPECT_EQ(b_->closed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(b_->closed.message()),
              HasSubstr("100 messages of node 'b' were refused"));
  b_ = Join("b", {Id(a_)});
  EXPECT_TRUE(b_->closed.ok());
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
}

TEST_F(CoordinatorTest, AHelloOutOfBoundsEndsItsStream) {
  const auto agent = std::make_shared<FakeAgent>("a");
  v1::AgentMessage hello = testing::Hello("a", "one", 1);
  hello.mutable_hello()->set_version(std::string(100000, 'x'));
  Say(agent, hello);
  EXPECT_EQ(agent->closed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(agent->received.empty());
}

TEST_F(CoordinatorTest, ANodeMustEndAnAttemptThatItHasNoPartIn) {
  StartJob("job", 100);
  const Agent other = Join("c", {Id(a_)});
  EXPECT_EQ(other->Last(What::kEnd).end().attempt().job_id(), "job");
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
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

// Reading the data may take longer than all else before the first step.
TEST_F(CoordinatorTest, IndexingIsShownAndKeepsTheStartFromTimingOut) {
  a_ = Join("a");
  b_ = Join("b");
  Submit("job");
  for (const Agent& agent : {a_, b_}) Say(agent, testing::Ready(Id(a_)));
  for (int64_t percent : {20, 41}) {
    Pass(absl::Seconds(40), {a_, b_});
    v1::AgentMessage progress = testing::Data(Id(a_), 1);
    progress.mutable_data()->mutable_data()->Clear();
    progress.mutable_data()->mutable_data()->set_indexed_bytes(percent);
    progress.mutable_data()->mutable_data()->set_bytes_to_index(100);
    Say(b_, progress);
    EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STARTING);
    EXPECT_EQ(Get("job").data().indexed_bytes(), percent);
  }
  Say(a_, testing::Data(Id(a_), 0));
  Say(b_, testing::Data(Id(a_), 1));
  EXPECT_EQ(Get("job").data().bytes_to_index(), 0);
  EXPECT_EQ(Get("job").data().num_samples(), 100);
  Pass(absl::Seconds(61), {a_, b_});
  EXPECT_EQ(Get("job").reason(), "START_TIMEOUT");
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

TEST_F(CoordinatorTest, MeasuredCostsThatNoPlanMayUseAreCountedAndReplaced) {
  a_ = Join("a");
  b_ = Join("b");
  Submit("job");
  for (const Agent& agent : {a_, b_}) Say(agent, testing::Ready(Id(a_)));
  v1::AgentMessage costs = testing::Costs(Id(a_));
  costs.mutable_costs()->mutable_costs()->set_quadratic_ns_per_token2(2333.41);
  Say(a_, costs);
  StartRanks();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING) << Get("job").message();
  EXPECT_LE(PlanOf(0).costs().quadratic_ns_per_token2(), 1024);
  EXPECT_GT(PlanOf(0).costs().linear_ns_per_token(), 0);
  EXPECT_THAT(
      MetricsText(),
      HasSubstr("evenstep_estimates_refused_total{source=\"start\"} 1"));
}

TEST_F(CoordinatorTest, AStepThatTheNewestCostsCannotPlanTakesEarlierOnes) {
  planner_.make = [first_ns = 0.0](const planner::PlanRequest& request) mutable
      -> absl::StatusOr<planner::Plan> {
    const double ns = request.time.linear_ns_per_token;
    if (first_ns == 0) first_ns = ns;
    if (ns > 1.2 * first_ns) return absl::InvalidArgumentError("planted");
    return planner::MakePlan(request);
  };
  Restart();
  StartJob("job", 12);
  for (int64_t step = 0; step < 8; ++step) {
    SendLengths(step + 4);
    ReportStep(step, /*slowness=*/1.8);
  }
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING) << Get("job").message();
  EXPECT_LT(PlanOf(11).costs().linear_ns_per_token(),
            1.2 * PlanOf(0).costs().linear_ns_per_token());
  EXPECT_THAT(MetricsText(),
              HasSubstr("evenstep_estimates_refused_total{source=\"plan\"}"));
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

TEST_F(CoordinatorTest, APlanThatNoMessageCanCarryFailsTheJobOnce) {
  planner_.make =
      [](const planner::PlanRequest& request) -> absl::StatusOr<planner::Plan> {
    absl::StatusOr<planner::Plan> plan = planner::MakePlan(request);
    if (plan.ok()) {
      plan->micro_batches.front().samples.assign(9000000, 0);  // 2 bytes each
    }
    return plan;
  };
  planner_.check = [](const auto&, const auto&) { return absl::OkStatus(); };
  Restart();
  a_ = Join("a");
  b_ = Join("b");
  Submit("job");
  StartRanks();
  EXPECT_EQ(Get("job").reason(), "MESSAGE_TOO_LARGE");
  EXPECT_THAT(Get("job").message(),
              AllOf(HasSubstr("the plan of step 0"), HasSubstr("16777216")));
  EXPECT_EQ(a_->Count(What::kPlan), 0);
}

TEST_F(CoordinatorTest, AStepWithoutALengthReportFailsTheJobInTheEnd) {
  options_.times.step_deadline = absl::Minutes(1);
  Restart();
  StartJob("job", 100);
  for (int64_t step = 0; step < 4; ++step) ReportStep(step);
  Say(a_, testing::Lengths(Id(a_), 0, 2, 4));  // rank 1's is lost
  Pass(absl::Seconds(59), {a_, b_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
  Pass(absl::Seconds(2), {a_, b_});
  EXPECT_EQ(Get("job").reason(), "STEP_TIMEOUT");
  EXPECT_THAT(Get("job").message(),
              AllOf(HasSubstr("rank 1 did not report the lengths of step 4"),
                    HasSubstr("--step-deadline")));
}

TEST_F(CoordinatorTest, RanksThatHangInAStepAreNamed) {
  options_.times.step_deadline = absl::Minutes(1);
  Restart();
  StartJob("job", 100);
  Say(a_, testing::Step(Id(a_), 0, PlanOf(0)));
  Pass(absl::Seconds(61), {a_, b_});
  EXPECT_EQ(Get("job").reason(), "STEP_TIMEOUT");
  EXPECT_THAT(Get("job").message(), HasSubstr("rank 1 did not report step 0"));
}

TEST_F(CoordinatorTest, RanksThatDoNotEndAreNamed) {
  options_.times.step_deadline = absl::Minutes(1);
  Restart();
  StartJob("job", 4);
  for (int64_t step = 0; step < 4; ++step) ReportStep(step);
  Say(a_, testing::CleanExit(Id(a_), 0, 4));
  Pass(absl::Seconds(61), {a_, b_});
  EXPECT_EQ(Get("job").reason(), "STEP_TIMEOUT");
  EXPECT_THAT(Get("job").message(), HasSubstr("rank 1 did not end"));
}

TEST_F(CoordinatorTest, ASlowJobThatReportsDoesNotReachTheStepDeadline) {
  options_.times.step_deadline = absl::Minutes(1);
  Restart();
  StartJob("job", 100);
  for (int64_t step = 0; step < 4; ++step) {
    Pass(absl::Seconds(50), {a_, b_});
    ReportStep(step);
  }
  clock_.Advance(absl::Minutes(2));  // the coordinator itself was stopped
  Settle();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
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
