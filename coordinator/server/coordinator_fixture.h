#ifndef EVENSTEP_COORDINATOR_SERVER_COORDINATOR_FIXTURE_H_
#define EVENSTEP_COORDINATOR_SERVER_COORDINATOR_FIXTURE_H_

// What the coordinator's tests share: a coordinator over a real file, a fake
// clock, agents and followers that record what they are told, and whole phases
// of a job's life. No network; one thread.

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/server/coordinator.h"
#include "coordinator/store/sqlite_job_store.h"
#include "coordinator/testing/fake_ranks.h"
#include "coordinator/testing/faulty_job_store.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"

namespace evenstep::coordinator {

using What = v1::CoordinatorMessage::WhatCase;

class InlineRunner : public WorkRunner {
 public:
  void Run(std::function<void()> work) override { work(); }
};

// A wall clock that can be set, as that of a machine.
class JumpingClock : public FakeClock {
 public:
  absl::Time Wall() const override { return FakeClock::Wall() + jump_; }
  void JumpWall(absl::Duration by) { jump_ += by; }

 private:
  absl::Duration jump_;
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
        options_);
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
             const std::string& incarnation = "one",
             const std::string& folder = "") {
    auto agent = std::make_shared<FakeAgent>(name);
    v1::AgentMessage hello = testing::Hello(name, incarnation, 1);
    for (const auto& id : running) *hello.mutable_hello()->add_running() = id;
    if (!folder.empty()) hello.mutable_hello()->set_folder_id(folder);
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
  // Both nodes take their share, and are told to begin.
  void BeginJob(const std::string& id) {
    a_ = Join("a");
    b_ = Join("b");
    Submit(id);
    Say(a_, testing::Ready(Id(a_)));
    Say(b_, testing::Ready(Id(a_)));
    Settle();
  }
  std::vector<std::string> Reasons(const std::string& id) {
    std::vector<std::string> reasons;
    const auto events = store_->ReadEvents(id, 0, 1000);
    for (const auto& event : *events) {
      reasons.push_back(event.reason());
    }
    return reasons;
  }
  void StartRanks() {
    const v1::AttemptId attempt = Id(a_);
    for (const Agent& agent : {a_, b_}) Say(agent, testing::Ready(attempt));
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
  // `slowness`: computing, against the costs of testing::Costs; 0: not timed.
  void ReportStep(int64_t step, double slowness = 0) {
    const v1::StepPlan plan = PlanOf(step);
    for (int rank : {0, 1}) {
      v1::AgentMessage message = testing::Step(Id(a_), rank, plan);
      testing::TimeComputing(plan, slowness,
                             message.mutable_step()->mutable_report());
      Say(AgentOf(rank), message);
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

  CoordinatorOptions options_;
  std::string folder_;
  JumpingClock clock_;
  InlineRunner planners_;
  planner::PlannerFunctions planner_ = planner::RealPlanner();
  std::deque<std::function<void()>> posted_;
  std::unique_ptr<JobStore> store_;
  std::unique_ptr<FaultyJobStore> faulty_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<Coordinator> coordinator_;
  Agent a_, b_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_COORDINATOR_FIXTURE_H_
