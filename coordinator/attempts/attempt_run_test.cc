// What an attempt decides, without a supervisor, a store or a network.

#include "coordinator/attempts/attempt_run.h"

#include <string>
#include <utility>
#include <vector>

#include "coordinator/testing/test_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Action = AttemptAction;
using What = v1::CoordinatorMessage::WhatCase;

constexpr absl::Duration kNow = absl::Seconds(1);

v1::AttemptId Id() {
  v1::AttemptId id;
  id.set_job_id("job");
  id.set_attempt(1);
  id.set_generation(1);
  return id;
}

class AttemptRunTest : public ::testing::Test {
 protected:
  NodeRun& Node(const std::string& name) {
    return *FindNode(run_.nodes(), name);
  }
  Action Next(absl::Duration now = kNow) { return run_.NextAction(now); }
  void Begin() {
    for (NodeRun& node : run_.nodes()) run_.TakeShare(node, kNow);
    links_.TakeSent();
  }
  void Start() {
    Begin();
    for (NodeRun& node : run_.nodes()) node.Apply(NodeEvent::kSpeak);
    for (int rank : {0, 1}) run_.ranks().MarkStarted(rank);
    EXPECT_EQ(Next().kind, Action::kStarted);
    run_.start().complete = true;
    EXPECT_EQ(Next().kind, Action::kNone);
  }
  void Stop(JobState after) { run_.ending().Begin(after, "why", kNow); }

  testing::TestRun test_{Id(), {"a", "b"}, 6};
  AttemptRun& run_ = test_.run;
  testing::FakeLinks& links_ = test_.links;
};

TEST_F(AttemptRunTest, TheLastShareIsTheWordToBeginForAll) {
  run_.Assign(kNow);
  EXPECT_THAT(links_.TakeSent(), ElementsAre(Pair("a", What::kAssignment),
                                             Pair("b", What::kAssignment)));
  run_.TakeShare(Node("a"), kNow);
  run_.TakeShare(Node("a"), kNow);
  EXPECT_THAT(links_.TakeSent(), IsEmpty());
  run_.TakeShare(Node("b"), kNow);
  EXPECT_THAT(links_.TakeSent(),
              ElementsAre(Pair("a", What::kBegin), Pair("b", What::kBegin)));
}

TEST_F(AttemptRunTest, ANodeThatLostTheWordGetsItAgainAlone) {
  Begin();
  run_.Rejoin(Node("b"), NodeReturn::kWithoutAttempt, kNow);
  EXPECT_THAT(links_.TakeSent(), ElementsAre(Pair("b", What::kAssignment)));
  run_.TakeShare(Node("b"), kNow);
  EXPECT_THAT(links_.TakeSent(), ElementsAre(Pair("b", What::kBegin)));
  Node("b").Apply(NodeEvent::kSpeak);
  run_.TakeShare(Node("b"), kNow);
  EXPECT_THAT(links_.TakeSent(), IsEmpty()) << "its trainers run";
  EXPECT_EQ(Next().kind, Action::kNone);
}

TEST_F(AttemptRunTest, AStartThatANodeDidNotTakeIsLostWithItsStream) {
  run_.TakeShare(Node("a"), kNow);
  run_.Disconnect(Node("b"));
  EXPECT_EQ(Next().kind, Action::kRequeue);
  EXPECT_THAT(Next().cause.message, HasSubstr("node b went away"));
}

TEST_F(AttemptRunTest, ABegunStartIsLostOnlyWithTheLease) {
  Begin();
  run_.Disconnect(Node("b"));
  EXPECT_EQ(Next().kind, Action::kNone);
  run_.Lose(Node("b"), absl::Seconds(5), kNow);
  EXPECT_EQ(Next().kind, Action::kRequeue);
}

TEST_F(AttemptRunTest, ALostNodeWhoseTrainersSpokeFailsTheJob) {
  Begin();
  Node("b").Apply(NodeEvent::kSpeak);
  run_.Lose(Node("b"), absl::Seconds(5), kNow);
  EXPECT_EQ(Next().kind, Action::kFail);
  EXPECT_EQ(Next().cause.reason, "NODE_LOST");
}

TEST_F(AttemptRunTest, ALateStartIsLostBeforeTheWordToBeginAndFailsAfterIt) {
  const absl::Duration late = run_.spec().timeouts.start;
  run_.CheckTimes(late - absl::Seconds(1));
  EXPECT_EQ(Next(late).kind, Action::kNone);
  Begin();
  run_.CheckTimes(late);
  EXPECT_EQ(Next(late).kind, Action::kFail);
  EXPECT_EQ(Next(late).cause.reason, "START_TIMEOUT");
  testing::TestRun other(Id(), {"a", "b"}, 6);
  other.run.CheckTimes(late);
  EXPECT_EQ(other.run.NextAction(late).kind, Action::kRequeue);
}

TEST_F(AttemptRunTest, ASecondaryFailureWaitsForItsCauseAndForSilentNodes) {
  Start();
  links_.disconnected = {"b"};
  run_.ending().AddCause({"COLLECTIVE_FAILED", "", CauseKind::kConsequence},
                         kNow);
  const absl::Duration later = kNow + test_.times.cause_grace;
  EXPECT_EQ(Next().kind, Action::kNone);
  EXPECT_EQ(Next(later).kind, Action::kNone) << "the lease of b will tell";
  links_.disconnected = {};
  EXPECT_EQ(Next(later).kind, Action::kFail);
  run_.ending().AddCause({"TRAINER_KILLED", ""}, kNow);
  EXPECT_EQ(Next().cause.reason, "TRAINER_KILLED");
}

TEST_F(AttemptRunTest, ANodeThatComesBackEmptyHasAMomentToExplain) {
  Start();
  run_.Rejoin(Node("b"), NodeReturn::kWithoutAttempt, kNow);
  const absl::Duration until = kNow + test_.times.explain_grace;
  run_.CheckTimes(until - absl::Milliseconds(1));
  EXPECT_EQ(Next(until).kind, Action::kNone);
  run_.CheckTimes(until);
  EXPECT_EQ(Next(until).cause.reason, "NODE_LOST");
}

TEST_F(AttemptRunTest, ItSucceedsWhenEveryRankHasEndedCleanAndIsThenWaitedFor) {
  Start();
  for (int rank : {0, 1}) {
    run_.ranks().AddExit(testing::CleanExit(Id(), rank, 6).exited(), true);
  }
  EXPECT_EQ(Next().kind, Action::kSucceed);
  Stop(JobState::kSucceeded);
  run_.ConfirmEnd(Node("a"), kNow);
  EXPECT_EQ(Next().kind, Action::kNone);
  run_.ConfirmEnd(Node("b"), kNow);
  EXPECT_EQ(Next().kind, Action::kFinish);
}

TEST_F(AttemptRunTest, AJobThatEndsDoesNotWaitForALostNode) {
  Start();
  run_.Lose(Node("b"), absl::Seconds(5), kNow);
  Stop(JobState::kFailed);
  EXPECT_THAT(run_.CheckTimes(kNow), ElementsAre("b"));
  EXPECT_THAT(links_.TakeSent(),
              ElementsAre(Pair("a", What::kEnd), Pair("b", What::kEnd)));
}

// Two attempts of a job never live at once.
TEST_F(AttemptRunTest, AJobThatIsQueuedAgainWaitsUntilNothingCanLive) {
  Begin();
  run_.Lose(Node("b"), absl::Seconds(5), kNow);
  Stop(JobState::kQueued);
  run_.ending().ReleaseUnbegun();
  run_.ConfirmEnd(Node("a"), kNow);
  const AttemptTimes& times = test_.times;
  const absl::Duration gone = kNow + absl::Seconds(15) +
                              times.reconnect_budget + times.kill_grace +
                              times.lease;
  EXPECT_THAT(run_.CheckTimes(gone - absl::Seconds(1)), IsEmpty());
  EXPECT_EQ(Next(gone).kind, Action::kNone);
  EXPECT_THAT(run_.CheckTimes(gone), ElementsAre("b"));
  EXPECT_EQ(Next(gone).kind, Action::kFinish);
}

TEST_F(AttemptRunTest, AMessageThatNoNodeCanGetFailsTheJob) {
  Start();
  links_.refusal = absl::ResourceExhaustedError("takes 9 bytes");
  v1::StepPlan plan;
  plan.set_step(3);
  run_.SendPlan(plan, kNow);
  EXPECT_EQ(Next().cause.reason, "MESSAGE_TOO_LARGE");
  EXPECT_THAT(Next().cause.message,
              HasSubstr("the plan of step 3 takes 9 bytes"));
}

TEST_F(AttemptRunTest, TheLowestRankThatCanBeAskedWritesTheWeights) {
  Start();
  EXPECT_EQ(run_.WeightsRank(), 0);
  links_.disconnected = {"a"};
  EXPECT_EQ(run_.WeightsRank(), 1);
  run_.ranks().AddExit(testing::Killed(Id(), 1, 9).exited(), true);
  EXPECT_EQ(run_.WeightsRank(), 0) << "nobody can be asked";
}

}  // namespace
}  // namespace evenstep::coordinator
