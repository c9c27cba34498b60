// Whole lives of jobs with a fake clock and fake agents, without a network:
// what each message, silence and failure of the disk leads to.

#include "coordinator/server/coordinator.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/store/faulty_job_store.h"
#include "coordinator/store/sqlite_job_store.h"
#include "coordinator/testing/fake_ranks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "rpc/errors.h"

namespace evenstep::coordinator {
namespace {

using ::testing::HasSubstr;
using What = v1::CoordinatorMessage::WhatCase;

class InlineRunner : public WorkRunner {
 public:
  void Run(std::function<void()> work) override { work(); }
};

class FakeAgent : public AgentLink {
 public:
  explicit FakeAgent(std::string name) : name(std::move(name)) {}
  void Send(const v1::CoordinatorMessage& message) override {
    received.push_back(message);
  }
  void Close(const absl::Status& status) override { closed = status; }

  int Count(What what) const {
    return std::count_if(received.begin(), received.end(),
                         [&](const auto& m) { return m.what_case() == what; });
  }
  const v1::CoordinatorMessage& Last(What what) const {
    static const v1::CoordinatorMessage none;
    const auto it =
        std::find_if(received.rbegin(), received.rend(),
                     [&](const auto& m) { return m.what_case() == what; });
    return it == received.rend() ? none : *it;
  }

  const std::string name;
  std::vector<v1::CoordinatorMessage> received;
  absl::Status closed;
};
using Agent = std::shared_ptr<FakeAgent>;

template <typename Message>
class RecordingSink : public FollowSink<Message> {
 public:
  bool HasRoom() const override { return messages.size() < room; }
  void Send(Message message) override {
    messages.push_back(std::move(message));
  }
  void Finish(const absl::Status& status) override {
    finished = true;
    end = status;
  }
  size_t room = 1000000;
  std::vector<Message> messages;
  bool finished = false;
  absl::Status end;
};

class CoordinatorTest : public ::testing::Test {
 protected:
  CoordinatorTest() {
    std::string name = ::testing::TempDir() + "/evenstep-coord-XXXXXX";
    folder_ = mkdtemp(name.data());
    Restart();
  }
  ~CoordinatorTest() override {
    coordinator_.reset();
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  // The coordinator dies without a word, and comes back over the same file.
  void Restart() {
    coordinator_.reset();
    faulty_.reset();
    store_.reset();
    store_ = *SqliteJobStore::Open(folder_ + "/store.db", {});
    faulty_ = std::make_unique<FaultyJobStore>(*store_);
    metrics_ = std::make_unique<Metrics>("test");
    coordinator_ = std::make_unique<Coordinator>(
        CoordinatorParts{
            *faulty_, *metrics_, clock_, planners_,
            [this](std::function<void()> f) { posted_.push_back(f); },
            planner_},
        CoordinatorOptions{});
    ASSERT_TRUE(coordinator_->Start().ok());
  }
  void Settle() {
    while (!posted_.empty()) {
      const auto work = std::move(posted_.front());
      posted_.pop_front();
      work();
    }
    coordinator_->Tick();
  }
  // Time passes with heartbeats of the given agents only.
  void Pass(absl::Duration time, const std::vector<Agent>& alive) {
    v1::AgentMessage heartbeat;
    heartbeat.mutable_heartbeat();
    for (; time > absl::ZeroDuration(); time -= absl::Seconds(1)) {
      clock_.Advance(std::min(time, absl::Seconds(1)));
      for (const Agent& agent : alive) Say(agent, heartbeat);
      Settle();
    }
  }
  Agent Join(const std::string& name,
             const std::vector<v1::AttemptId>& running = {},
             const std::string& incarnation = "one") {
    auto agent = std::make_shared<FakeAgent>(name);
    v1::AgentMessage hello = testing::Hello(name, incarnation, 1);
    for (const auto& id : running) *hello.mutable_hello()->add_running() = id;
    Say(agent, hello);
    Settle();
    return agent;
  }
  void Say(const Agent& agent, const v1::AgentMessage& message) {
    coordinator_->OnAgentMessage(agent, message);
  }
  void Submit(const std::string& id, int64_t steps = 6, int ranks = 2) {
    const auto response =
        coordinator_->Submit(testing::SmallJob(id, ranks, steps));
    ASSERT_TRUE(response.ok()) << response.status();
    Settle();
  }
  v1::Job Get(const std::string& id) {
    v1::GetRequest request;
    request.set_job_id(id);
    return coordinator_->Get(request)->job();
  }
  void Cancel(const std::string& id) {
    v1::CancelRequest request;
    request.set_job_id(id);
    ASSERT_TRUE(coordinator_->Cancel(request).ok());
    Settle();
  }
  v1::AttemptId Id(const Agent& agent) {
    return agent->Last(What::kAssignment).assignment().attempt();
  }

  // Both agents, each with one rank of the job, up to RUNNING.
  void StartJob(const std::string& id, int64_t steps = 6) {
    a_ = Join("a");
    b_ = Join("b");
    Submit(id, steps);
    StartRanks();
    EXPECT_EQ(Get(id).state(), v1::JOB_STATE_RUNNING);
  }
  void StartRanks() {
    const v1::AttemptId attempt = Id(a_);
    for (int rank : {0, 1}) {
      Say(AgentOf(rank), testing::Data(attempt, rank));
    }
    Say(a_, testing::Costs(attempt));
    const int64_t steps =
        a_->Last(What::kAssignment).assignment().spec().steps();
    for (int64_t step = 0; step < std::min<int64_t>(4, steps); ++step) {
      SendLengths(step);
    }
    for (int rank : {0, 1}) {
      Say(AgentOf(rank), testing::Started(attempt, rank));
    }
    Settle();
  }
  void SendLengths(int64_t step) {
    for (int rank : {0, 1}) {
      Say(AgentOf(rank), testing::Lengths(Id(a_), rank, 2, step));
    }
    Settle();
  }
  void ReportStep(int64_t step) {
    for (int rank : {0, 1}) {
      Say(AgentOf(rank), testing::Step(Id(a_), rank, PlanOf(step)));
    }
    Settle();
  }
  v1::StepPlan PlanOf(int64_t step) {
    for (const auto& message : a_->received) {
      if (message.has_plan() && message.plan().plan().step() == step) {
        return message.plan().plan();
      }
    }
    ADD_FAILURE() << "no plan for step " << step;
    return {};
  }
  const Agent& AgentOf(int rank) { return rank == 0 ? a_ : b_; }
  void EndBoth() {
    const v1::AttemptId id = Id(a_);
    Say(a_, testing::Ended(id));
    Say(b_, testing::Ended(id));
    Settle();
  }
  std::string MetricsText() {
    return prometheus::TextSerializer().Serialize(
        metrics_->registry()->Collect());
  }

  std::string folder_;
  FakeClock clock_;
  InlineRunner planners_;
  PlannerFunctions planner_ = RealPlanner();
  std::deque<std::function<void()>> posted_;
  std::unique_ptr<JobStore> store_;
  std::unique_ptr<FaultyJobStore> faulty_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<Coordinator> coordinator_;
  Agent a_, b_;
};

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

TEST_F(CoordinatorTest, ACancelThatIsNotStoredIsRefusedAndDoesNothing) {
  StartJob("job", 100);
  faulty_->FailWrites(absl::ResourceExhaustedError("disk full"));
  v1::CancelRequest request;
  request.set_job_id("job");
  const auto refused = coordinator_->Cancel(request);
  EXPECT_EQ(rpc::ReasonOf(refused.status()), "STORE_FAILED");
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(a_->Count(What::kStop), 0);
  faulty_->FailWrites(absl::OkStatus());
  Cancel("job");
  Restart();
  a_ = Join("a");
  b_ = Join("b");
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

TEST_F(CoordinatorTest, ALostNodeFailsTheJobAndHoldsSlotsUntilItIsGone) {
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
  Say(a_, testing::Ended(Id(a_)));
  // Budget, detection of the dead connection, kill grace and lease.
  Pass(absl::Minutes(10) + absl::Seconds(15 + 8), {a_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING);
  Pass(absl::Seconds(6), {a_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_FAILED);
}

TEST_F(CoordinatorTest, ACoordinatorThatWasStoppedForLongLosesNobody) {
  StartJob("job", 100);
  clock_.Advance(absl::Minutes(3));  // its own SIGSTOP
  Settle();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
  Pass(absl::Seconds(6), {a_});
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
  const Agent other = Join("b", {}, "two");
  EXPECT_EQ(other->closed.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(other->closed.message()), HasSubstr("--node"));
  EXPECT_TRUE(b_->closed.ok());
  Pass(absl::Seconds(10), {a_, b_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
}

TEST_F(CoordinatorTest, ALostAssignmentIsSentAgain) {
  a_ = Join("a");
  b_ = Join("b");
  Submit("job");
  coordinator_->OnAgentGone(b_.get());
  b_ = Join("b");  // never got it
  EXPECT_EQ(b_->Count(What::kAssignment), 1);
  EXPECT_EQ(b_->Last(What::kAssignment).assignment().first_rank(), 1);
  Pass(absl::Seconds(5), {a_, b_});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STARTING);
  StartRanks();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
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

TEST_F(CoordinatorTest, AnAgentThatReconnectsGetsThePlansAgain) {
  StartJob("job", 100);
  ReportStep(0);
  coordinator_->OnAgentGone(b_.get());
  const Agent again = Join("b", {Id(a_)});
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(again->Count(What::kPlan), 3) << "steps 1 to 3";
  EXPECT_EQ(again->Count(What::kCosts), 1);
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

TEST_F(CoordinatorTest, AnUnknownAttemptOnANodeIsEnded) {
  v1::AttemptId unknown;
  unknown.set_job_id("ghost");
  unknown.set_attempt(3);
  const Agent agent = Join("a", {unknown});
  EXPECT_EQ(agent->Last(What::kEnd).end().attempt().job_id(), "ghost");
}

TEST_F(CoordinatorTest, AFullDiskRefusesSubmitsAndAllocatesNothing) {
  a_ = Join("a");
  faulty_->FailWrites(absl::ResourceExhaustedError("disk full"));
  const auto refused = coordinator_->Submit(testing::SmallJob("job", 1, 6));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(rpc::ReasonOf(refused.status()), "STORE_FAILED");
  v1::GetRequest get;
  get.set_job_id("job");
  EXPECT_EQ(coordinator_->Get(get).status().code(),
            absl::StatusCode::kNotFound);
  faulty_->FailWrites(absl::OkStatus());
  Submit("job", 6, 1);
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STARTING);
}

TEST_F(CoordinatorTest, AnAllocationThatIsNotStoredDoesNotHappen) {
  Submit("job", 6, 1);
  faulty_->FailWrites(absl::ResourceExhaustedError("disk full"));
  a_ = Join("a");
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(a_->Count(What::kAssignment), 0);
  faulty_->FailWrites(absl::OkStatus());
  Pass(absl::Seconds(2), {a_});
  EXPECT_EQ(a_->Count(What::kAssignment), 1);
}

TEST_F(CoordinatorTest, AMoveThatTheDiskRefusedIsStoredLater) {
  StartJob("job", 100);
  faulty_->FailWrites(absl::ResourceExhaustedError("disk full"));
  Say(b_, testing::Killed(Id(a_), 1, 9));
  EndBoth();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_FAILED);
  EXPECT_FALSE(coordinator_->Submit(testing::SmallJob("other", 1, 6)).ok());
  faulty_->FailWrites(absl::OkStatus());
  Pass(absl::Seconds(3), {a_, b_});
  Restart();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(Get("job").message(), HasSubstr("signal 9"));
}

TEST_F(CoordinatorTest, AWatcherSeesEventsAndStepsAndEndsWithTheJob) {
  auto sink = std::make_shared<RecordingSink<v1::WatchResponse>>();
  StartJob("job", 2);
  v1::WatchRequest request;
  request.set_job_id("job");
  request.set_after_step(-1);
  coordinator_->followers().Watch(request, sink);
  for (int64_t step : {0, 1}) ReportStep(step);
  Pass(absl::Seconds(1), {a_, b_});
  for (int rank : {0, 1}) {
    Say(AgentOf(rank), testing::CleanExit(Id(a_), rank, 2));
  }
  EndBoth();
  ASSERT_TRUE(sink->finished);
  EXPECT_TRUE(sink->end.ok());
  std::vector<int64_t> sequences, steps;
  for (const auto& message : sink->messages) {
    if (message.has_event()) sequences.push_back(message.event().sequence());
    if (message.has_step()) steps.push_back(message.step().step());
  }
  EXPECT_EQ(sequences, (std::vector<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(steps, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(sink->messages.back().event().state(), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(CoordinatorTest, AWatcherBehindTheLastEventEndsAtOnce) {
  Submit("job");
  Cancel("job");
  auto sink = std::make_shared<RecordingSink<v1::WatchResponse>>();
  v1::WatchRequest request;
  request.set_job_id("job");
  request.set_after_sequence(2);
  coordinator_->followers().Watch(request, sink);
  EXPECT_TRUE(sink->finished);
  EXPECT_TRUE(sink->messages.empty());
}

// The row of a job must not say that it is over when its last event is not
// stored: the coordinator may die in between.
TEST_F(CoordinatorTest, AFinalStateIsNeverStoredWithoutItsEvent) {
  StartJob("job", 100);
  Say(b_, testing::Killed(Id(a_), 1, 9));
  const v1::AttemptId id = Id(a_);
  Say(a_, testing::Log(id, 0, "last words"));
  Say(a_, testing::Ended(id));
  faulty_->FailMovesOnly(absl::ResourceExhaustedError("disk full"));
  Say(b_, testing::Ended(id));
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_FAILED);
  Restart();
  EXPECT_EQ(Get("job").state(), v1::JOB_STATE_STOPPING);
  a_ = Join("a");
  b_ = Join("b");
  auto sink = std::make_shared<RecordingSink<v1::WatchResponse>>();
  v1::WatchRequest request;
  request.set_job_id("job");
  coordinator_->followers().Watch(request, sink);
  ASSERT_TRUE(sink->finished);
  EXPECT_EQ(sink->messages.back().event().state(), v1::JOB_STATE_FAILED);
}

// More than the book keeps while the disk is full: the newest stay.
TEST_F(CoordinatorTest, LogLinesThatWaitForTheDiskAreBoundedInBytes) {
  StartJob("job", 100);
  faulty_->FailWrites(absl::ResourceExhaustedError("disk full"));
  const std::string text(8 << 10, 'x');
  for (int i = 0; i < 6000; ++i) Say(a_, testing::Log(Id(a_), 0, text));
  faulty_->FailWrites(absl::OkStatus());
  Pass(absl::Seconds(2), {a_, b_});
  const auto page = faulty_->ReadLog("job", 0, 10000);
  EXPECT_EQ(page->lines.size(), 4096u) << "32 MiB";
  EXPECT_EQ(page->lines.back().sequence(), 6000);
  EXPECT_EQ(page->num_dropped, 6000 - 4096);
}

TEST_F(CoordinatorTest, ALogFollowerGoesOnFromItsCursorWithoutLossOrRepeats) {
  StartJob("job", 100);
  auto first = std::make_shared<RecordingSink<v1::LogsResponse>>();
  v1::LogsRequest request;
  request.set_job_id("job");
  request.set_follow(true);
  const int64_t follower = coordinator_->followers().FollowLog(request, first);
  Say(a_, testing::Log(Id(a_), 0, "one"));
  Say(b_, testing::Log(Id(a_), 1, "two"));
  Pass(absl::Seconds(1), {a_, b_});
  coordinator_->followers().Remove(follower);  // the connection is lost
  Say(a_, testing::Log(Id(a_), 0, "three"));
  Pass(absl::Seconds(1), {a_, b_});
  std::vector<std::string> seen;
  int64_t cursor = 0;
  const auto collect = [&](const auto& sink) {
    for (const auto& response : sink.messages) {
      for (const auto& line : response.lines()) {
        seen.push_back(line.text());
        cursor = line.sequence();
      }
    }
  };
  collect(*first);
  request.set_after_sequence(cursor);
  auto second = std::make_shared<RecordingSink<v1::LogsResponse>>();
  coordinator_->followers().FollowLog(request, second);
  Say(b_, testing::Killed(Id(a_), 1, 9));
  Say(a_, testing::Log(Id(a_), 0, "last words"));
  EXPECT_FALSE(second->finished);
  EndBoth();
  Pass(absl::Seconds(1), {a_, b_});
  collect(*second);
  EXPECT_TRUE(second->finished);
  EXPECT_EQ(seen,
            (std::vector<std::string>{"one", "two", "three", "last words"}));
}

TEST_F(CoordinatorTest, ASlowFollowerIsFedAsItReads) {
  Submit("job", 6, 1);
  auto sink = std::make_shared<RecordingSink<v1::WatchResponse>>();
  sink->room = 0;
  v1::WatchRequest request;
  request.set_job_id("job");
  const int64_t follower = coordinator_->followers().Watch(request, sink);
  EXPECT_TRUE(sink->messages.empty());
  sink->room = 10;
  coordinator_->followers().Pump(follower);
  EXPECT_EQ(sink->messages.size(), 1u);
}

TEST_F(CoordinatorTest, ListsAreNewestFirstInPages) {
  for (const char* id : {"a", "b", "c"}) Submit(id);
  Cancel("b");
  v1::ListRequest request;
  request.set_page_size(2);
  auto page = coordinator_->List(request);
  ASSERT_EQ(page->jobs_size(), 2);
  EXPECT_EQ(page->jobs(0).job_id(), "c");
  EXPECT_EQ(page->jobs(1).job_id(), "b");
  request.set_page_token(page->next_page_token());
  page = coordinator_->List(request);
  ASSERT_EQ(page->jobs_size(), 1);
  EXPECT_EQ(page->jobs(0).job_id(), "a");
  EXPECT_TRUE(page->next_page_token().empty());
  request.clear_page_token();
  request.add_states(v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(coordinator_->List(request)->jobs_size(), 1);
  request.set_page_token("nonsense");
  EXPECT_FALSE(coordinator_->List(request).ok());
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
