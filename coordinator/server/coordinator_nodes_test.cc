// What an agent's silence, its return, its restart, and a restart of the
// coordinator itself do to a job.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/server/coordinator_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

using ::testing::HasSubstr;

TEST_F(CoordinatorTest, ALostNodeFailsTheJobAndHoldsNobodysSlots) {
  StartJob("job", 100);
  Say(a_, testing::CollectiveFailed(Id(a_), 0));
  coordinator_->OnAgentGone(b_.get());
  Pass(absl::Seconds(3), {a_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING)
      << "the lease of b will tell the cause";
  Pass(absl::Seconds(3), {a_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING);
  EXPECT_EQ(Get("job").reason(), "NODE_LOST");
  EXPECT_THAT(Get("job").message(), HasSubstr("node b"));
  Submit("next", 6, 1);
  EXPECT_EQ(Get("next").state(), v1::JOB_STATE_QUEUED) << "a is not free yet";
  Say(a_, testing::Ended(Id(a_)));
  Settle();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(Get("next").state(), v1::JOB_STATE_STARTING);
}

// The survivor has until its stop time-out; the lost node adds nothing to it.
TEST_F(CoordinatorTest, AJobWhoseNodeIsLostSaysWhomItWaitsFor) {
  StartJob("job", 100);
  Cancel("job");
  coordinator_->OnAgentGone(b_.get());
  EXPECT_THAT(Get("job").message(),
              HasSubstr("waiting for node b, which has lost its stream"));
  Say(a_, testing::Ended(Id(a_)));
  Pass(absl::Seconds(4), {a_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING);
  Pass(absl::Seconds(2), {a_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_CANCELLED);
}

TEST_F(CoordinatorTest, ANodeThatComesBackWithAnEndedJobEndsItBeforeNewWork) {
  StartJob("job", 100);
  const v1::AttemptId id = Id(a_);
  coordinator_->OnAgentGone(b_.get());
  Pass(absl::Seconds(6), {a_});
  Say(a_, testing::Ended(id));
  Settle();
  ASSERT_EQ(Get("job").state(), v1::JOB_STATE_FAILED);
  b_ = Join("b", {id});
  EXPECT_EQ(b_->Count(What::kEnd), 1);
  Submit("next");
  EXPECT_EQ(Get("next").state(), v1::JOB_STATE_QUEUED) << "b is not free";
  Say(b_, testing::Ended(id));
  Settle();
  EXPECT_EQ(Get("next").state(), v1::JOB_STATE_STARTING);
}

// The job that it comes back with still waits for another node.
TEST_F(CoordinatorTest, ALostNodeThatComesBackEndsTheJobThatOthersStillEnd) {
  StartJob("job", 100);
  const v1::AttemptId id = Id(a_);
  coordinator_->OnAgentGone(b_.get());
  Pass(absl::Seconds(6), {a_});
  ASSERT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING);
  b_ = Join("b", {id});
  EXPECT_EQ(b_->Count(What::kEnd), 1);
  Submit("next", 6, 1);
  EXPECT_EQ(Get("next").state(), v1::JOB_STATE_QUEUED) << "neither is free";
  Pass(absl::Seconds(3), {a_, b_});
  EXPECT_GE(b_->Count(What::kEnd), 2) << "told again";
  Say(b_, testing::Ended(id));
  Settle();
  EXPECT_EQ(Get("next").state(), v1::JOB_STATE_STARTING);
  Say(a_, testing::Ended(id));
  Settle();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_FAILED);
}

// An agent may get no CPU time for long on a busy machine.
TEST_F(CoordinatorTest, ASilentAgentOnAnOpenStreamIsWaitedForLonger) {
  StartJob("job", 100);
  Pass(absl::Seconds(19), {a_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
  Pass(absl::Seconds(2), {a_, b_});
  Pass(absl::Seconds(19), {a_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
  Pass(absl::Seconds(1), {a_});
  EXPECT_THAT(Get("job").message(), HasSubstr("node b was silent for 20s"));
}

TEST_F(CoordinatorTest, ACoordinatorThatWasStoppedForLongLosesNobody) {
  StartJob("job", 100);
  clock_.Advance(absl::Minutes(3));  // its own SIGSTOP
  Settle();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
  Pass(absl::Seconds(20), {a_});
  EXPECT_EQ(Get("job").reason(), "NODE_LOST") << "b stays silent";
}

TEST_F(CoordinatorTest, ANodeWhoseStreamBrokeDuringTheSleepMayComeBack) {
  StartJob("job", 100);
  const v1::AttemptId id = Id(a_);
  coordinator_->OnAgentGone(b_.get());  // waits in the queue behind the sleep
  clock_.Advance(absl::Minutes(3));
  Settle();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
  b_ = Join("b", {id});
  Pass(absl::Seconds(10), {a_, b_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
}

TEST_F(CoordinatorTest, ASecondAgentOfTheSameNameIsRefusedAndHarmsNobody) {
  StartJob("job", 100);
  const Agent other = Join("b", {}, "two", "elsewhere");
  EXPECT_EQ(other->closed.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(other->closed.message()), HasSubstr("--node"));
  EXPECT_TRUE(b_->closed.ok());
  Pass(absl::Seconds(10), {a_, b_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
}

TEST_F(CoordinatorTest, NothingBeginsBeforeEveryNodeHasTakenItsShare) {
  a_ = Join("a");
  b_ = Join("b");
  Submit("job");
  Say(a_, testing::Ready(Id(a_)));
  Say(a_, testing::Ready(Id(a_)));
  EXPECT_EQ(a_->Count(What::kBegin), 0);
  Say(b_, testing::Ready(Id(a_)));
  EXPECT_EQ(a_->Count(What::kBegin), 1);
  EXPECT_EQ(b_->Count(What::kBegin), 1);
}

TEST_F(CoordinatorTest, AStartThatANodeDidNotTakeIsQueuedAgainAtOnce) {
  a_ = Join("a");
  b_ = Join("b");
  Submit("job");
  Say(a_, testing::Ready(Id(a_)));
  coordinator_->OnAgentGone(b_.get());
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(a_->Count(What::kEnd), 1) << "a forgets its share";
  EXPECT_THAT(Reasons("job"),
              ::testing::ElementsAre("SUBMITTED", "ALLOCATED", "START_LOST",
                                     "START_LOST"));
  EXPECT_THAT(MetricsText(), HasSubstr("evenstep_starts_lost_total 1"));
  b_ = Join("b", {}, "two");
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STARTING);
  EXPECT_EQ(Get("job").attempt(), 2);
  StartRanks();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
}

TEST_F(CoordinatorTest, AStartOnASilentNodeIsQueuedAgainOnceItIsLost) {
  a_ = Join("a");
  b_ = Join("b");
  Submit("job");
  Say(a_, testing::Ready(Id(a_)));
  Pass(absl::Seconds(20), {a_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_QUEUED);
}

// Trainers that nobody was told to start, but which are there, are waited for.
TEST_F(CoordinatorTest, ANodeThatSpokeOfALostStartIsEndedFirst) {
  a_ = Join("a");
  b_ = Join("b");
  Submit("job");
  const v1::AttemptId id = Id(a_);
  Say(a_, testing::Data(id, 0));
  coordinator_->OnAgentGone(b_.get());
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING);
  Settle();
  EXPECT_EQ(a_->Count(What::kEnd), 1);
  Say(a_, testing::Ended(id));
  Settle();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_QUEUED);
}

TEST_F(CoordinatorTest, AStartThatIsLostAgainAndAgainFails) {
  a_ = Join("a");
  b_ = Join("b");
  Submit("job");
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(Get("job").state(), v1::JOB_STATE_STARTING) << i;
    coordinator_->OnAgentGone(b_.get());
    b_ = Join("b", {}, absl::StrCat("again ", i));
  }
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(Get("job").reason(), "START_LOST");
  EXPECT_THAT(Get("job").message(), HasSubstr("5 times"));
}

TEST_F(CoordinatorTest, AnAgentThatStopsGivesAStartBack) {
  BeginJob("job");
  const v1::AttemptId id = Id(a_);
  Say(b_, testing::AgentStopping(id));
  EXPECT_EQ(Get("job").reason(), "START_LOST");
  EndBoth();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Get("job").attempt(), 1) << "b gets no new work";
}

TEST_F(CoordinatorTest, ALostBeginIsSentAgain) {
  BeginJob("job");
  coordinator_->OnAgentGone(b_.get());
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STARTING);
  b_ = Join("b");  // never got it
  EXPECT_EQ(b_->Count(What::kAssignment), 1);
  EXPECT_EQ(b_->Last(What::kAssignment).assignment().first_rank(), 1);
  EXPECT_EQ(b_->Count(What::kBegin), 0);
  Say(b_, testing::Ready(Id(a_)));
  EXPECT_EQ(b_->Count(What::kBegin), 1);
  EXPECT_EQ(a_->Count(What::kBegin), 1) << "not told twice";
  Pass(absl::Seconds(5), {a_, b_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STARTING);
  StartRanks();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
}

TEST_F(CoordinatorTest, ABegunStartIsQueuedAgainOnlyWhenNothingCanLive) {
  BeginJob("job");
  const v1::AttemptId id = Id(a_);
  coordinator_->OnAgentGone(b_.get());
  Pass(absl::Seconds(6), {a_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING);
  EXPECT_EQ(Get("job").reason(), "START_LOST");
  Say(a_, testing::Ended(id));
  Pass(absl::Minutes(10) + absl::Seconds(15 + 8), {a_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING) << "b may live";
  Pass(absl::Seconds(6), {a_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_QUEUED);
}

TEST_F(CoordinatorTest, ACancelledStartThatNobodyTookIsOverWithItsStream) {
  a_ = Join("a");
  b_ = Join("b");
  Submit("job");
  const v1::AttemptId id = Id(a_);
  Cancel("job");
  Say(a_, testing::Ended(id));
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING);
  coordinator_->OnAgentGone(b_.get());
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_CANCELLED);
}

TEST_F(CoordinatorTest, ANodeThatRefusedAndDiedIsNotWaitedFor) {
  a_ = Join("a");
  b_ = Join("b");
  Submit("job");
  const v1::AttemptId id = Id(a_);
  v1::AgentMessage refusal;
  v1::AbandonRequest* const abandon = refusal.mutable_abandon();
  *abandon->mutable_attempt() = id;
  abandon->set_rank(-1);
  abandon->set_step(-1);
  abandon->set_reason("START_FAILED");
  abandon->set_message("no room");
  Say(b_, refusal);
  coordinator_->OnAgentGone(b_.get());  // before it has said `ended`
  Pass(absl::Seconds(2), {a_});
  Say(a_, testing::Ended(id));
  Pass(absl::Seconds(6), {a_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_FAILED) << Get("job").message();
  EXPECT_EQ(Get("job").reason(), "START_FAILED");
}

TEST_F(CoordinatorTest, AnAssignmentThatArrivedIsNotSentAgain) {
  a_ = Join("a");
  b_ = Join("b");
  Submit("job");
  Say(b_, testing::Data(Id(a_), 1));
  coordinator_->OnAgentGone(b_.get());
  b_ = Join("b");
  EXPECT_EQ(b_->Count(What::kAssignment), 0);
  Pass(absl::Seconds(3), {a_, b_});
  EXPECT_EQ(Get("job").reason(), "NODE_LOST");
}

TEST_F(CoordinatorTest, ARestartedAgentMeansItsTrainersAreGone) {
  StartJob("job", 100);
  Say(a_, testing::CollectiveFailed(Id(a_), 0));
  coordinator_->OnAgentGone(b_.get());
  const v1::AttemptId id = Id(a_);
  Join("b", {}, "two");
  EXPECT_EQ(Get("job").reason(), "NODE_LOST");
  EXPECT_THAT(Get("job").message(), HasSubstr("node b"));
  Say(a_, testing::Ended(id));
  Settle();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_FAILED);
}

// Trainers run on without their coordinator, and their agent says so later.
TEST_F(CoordinatorTest, ReportsFromBeforeARestartAreNoErrors) {
  StartJob("job", 1000);
  const v1::AttemptId id = Id(a_);
  const v1::StepPlan plan = PlanOf(3);
  Restart();
  a_ = Join("a", {id});
  for (int64_t step = 3; step < 300; ++step) {
    v1::StepPlan later = plan;
    later.set_step(step);
    Say(a_, testing::Step(id, 0, later));
    Say(a_, testing::Lengths(id, 0, 2, step));
  }
  EXPECT_TRUE(a_->closed.ok()) << a_->closed;
  EXPECT_EQ(Get("job").reason(), "COORDINATOR_RESTARTED");
  EXPECT_THAT(MetricsText(),
              ::testing::Not(HasSubstr("evenstep_refused_messages_total{")));
}

TEST_F(CoordinatorTest, AnAgentThatReconnectsGetsThePlansAgain) {
  StartJob("job", 100);
  ReportStep(0);
  coordinator_->OnAgentGone(b_.get());
  const Agent again = Join("b", {Id(a_)});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(again->Count(What::kPlan), 3) << "steps 1 to 3";
}

TEST_F(CoordinatorTest, ANodeThatComesBackEmptyMaySayHowItEnded) {
  StartJob("job", 1);
  ReportStep(0);
  coordinator_->OnAgentGone(b_.get());
  const v1::AttemptId id = Id(a_);
  b_ = Join("b");  // the same agent, which has ended the attempt meanwhile
  Say(b_, testing::CleanExit(id, 1, 1));
  Say(b_, testing::Ended(id));
  Pass(absl::Seconds(5), {a_, b_});
  Say(a_, testing::CleanExit(id, 0, 1));
  Say(a_, testing::Ended(id));
  Settle();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(CoordinatorTest, ANodeThatComesBackEmptyAndSilentFailsTheJob) {
  StartJob("job", 100);
  coordinator_->OnAgentGone(b_.get());
  b_ = Join("b");
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
  Pass(absl::Seconds(3), {a_, b_});
  EXPECT_EQ(Get("job").reason(), "NODE_LOST");
}

TEST_F(CoordinatorTest, AfterARestartTheAttemptIsEndedAndQueuedAgain) {
  StartJob("job", 100);
  ReportStep(0);
  const v1::AttemptId id = Id(a_);
  Restart();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING);
  a_ = Join("a", {id});
  b_ = Join("b", {id});
  EXPECT_GE(a_->Count(What::kEnd), 1);
  Say(a_, testing::Ended(id));
  Pass(absl::Seconds(6), {a_, b_});
  EXPECT_EQ(Get("job").attempt(), 1) << "never two live attempts";
  Say(b_, testing::Ended(id));
  Settle();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STARTING);
  EXPECT_EQ(Get("job").attempt(), 2);
  EXPECT_EQ(Id(a_).generation(), 2);
  EXPECT_EQ(Get("job").steps_done(), 0);
}

TEST_F(CoordinatorTest, ANodeThatComesBackEmptyConfirmsTheEnd) {
  StartJob("job", 100);
  Restart();
  a_ = Join("a");
  b_ = Join("b");
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Get("job").reason(), "SETTLING") << "one lease before anything";
  Pass(absl::Seconds(5), {a_, b_});
  EXPECT_EQ(Get("job").attempt(), 2);
}

TEST_F(CoordinatorTest, ANodeThatNeverComesBackHoldsTheJobForTheBudget) {
  StartJob("job", 100);
  Restart();
  a_ = Join("a");
  Pass(absl::Seconds(6), {a_});
  EXPECT_THAT(Get("job").message(), HasSubstr("waiting for node b for 10m"));
  // Budget, detection of the dead connection, kill grace and two leases.
  Pass(absl::Minutes(10) + absl::Seconds(15 + 8), {a_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING);
  Pass(absl::Seconds(6), {a_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_QUEUED);
}

TEST_F(CoordinatorTest, ACancelDuringTheRestartIsNotQueuedAgain) {
  StartJob("job", 100);
  Restart();
  Cancel("job");
  a_ = Join("a");
  b_ = Join("b");
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_CANCELLED);
}

TEST_F(CoordinatorTest, AStoppingJobReachesItsEndAfterARestart) {
  StartJob("job", 100);
  Say(b_, testing::Killed(Id(a_), 1, 9));
  Restart();
  a_ = Join("a");
  b_ = Join("b");
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(Get("job").message(), HasSubstr("signal 9"));
}

// Its trainers may live: the agent that took the name knows nothing of them.
TEST_F(CoordinatorTest, AnotherAgentOfALostNameConfirmsNothing) {
  StartJob("job", 100);
  const v1::AttemptId id = Id(a_);
  Restart();
  a_ = Join("a");
  Pass(absl::Seconds(6), {a_});  // the lease of b runs out
  b_ = Join("b", {}, "two", "elsewhere");
  EXPECT_TRUE(b_->closed.ok());
  Say(b_, testing::Ended(id));
  Say(b_, testing::Killed(id, 1, 9));
  Pass(absl::Minutes(10), {a_, b_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING);
  EXPECT_EQ(Get("job").attempt(), 1) << "never two live attempts";
  EXPECT_EQ(b_->Count(What::kEnd), 0);
  Pass(absl::Seconds(35), {a_, b_});
  EXPECT_EQ(Get("job").attempt(), 2);
}

TEST_F(CoordinatorTest, ARestartDoesNotGiveANodesNameAway) {
  StartJob("job", 100);
  const v1::AttemptId id = Id(a_);
  Restart();
  const Agent other = Join("b", {}, "two", "elsewhere");
  EXPECT_EQ(other->closed.code(), absl::StatusCode::kAlreadyExists)
      << "within the lease that nodes have to come back";
  a_ = Join("a", {id});
  Say(a_, testing::Ended(id));
  Pass(absl::Seconds(6), {a_});
  b_ = Join("b", {}, "two", "elsewhere");
  EXPECT_TRUE(b_->closed.ok());
  Pass(absl::Seconds(6), {a_, b_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING)
      << "never two live attempts";
  EXPECT_EQ(Get("job").attempt(), 1);
}

TEST_F(CoordinatorTest, AnUnknownAttemptOnANodeIsEnded) {
  v1::AttemptId unknown;
  unknown.set_job_id("ghost");
  unknown.set_attempt(3);
  const Agent agent = Join("a", {unknown});
  EXPECT_EQ(agent->Last(What::kEnd).end().attempt().job_id(), "ghost");
}

}  // namespace
}  // namespace evenstep::coordinator
