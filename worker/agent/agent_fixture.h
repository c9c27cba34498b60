#ifndef EVENSTEP_WORKER_AGENT_AGENT_FIXTURE_H_
#define EVENSTEP_WORKER_AGENT_AGENT_FIXTURE_H_

// What the agent's tests share: a fake coordinator, an agent with a folder of
// its own, orders to it, and what came back.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "worker/agent/agent.h"
#include "worker/agent/fake_coordinator.h"

namespace evenstep::agent {

inline constexpr absl::Duration kSoon = absl::Seconds(20);

inline bool IsExit(const v1::AgentMessage& m) { return m.has_exited(); }
inline bool IsReady(const v1::AgentMessage& m) { return m.has_ready(); }
inline bool IsEnded(const v1::AgentMessage& m) { return m.has_ended(); }
inline bool IsStarted(const v1::AgentMessage& m) { return m.has_started(); }
inline bool IsHello(const v1::AgentMessage& m) { return m.has_hello(); }
inline bool IsStep(const v1::AgentMessage& m) { return m.has_step(); }

inline bool Becomes(const std::function<bool()>& condition) {
  const absl::Time end = absl::Now() + kSoon;
  while (!condition()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

class AgentTest : public testing::Test {
 protected:
  explicit AgentTest(int64_t reconnect_budget_ms = 60000)
      : coordinator_(reconnect_budget_ms) {}

  void SetUp() override {
    char name[] = "/tmp/evenstep-agent-XXXXXX";
    folder_ = mkdtemp(name);
    ASSERT_TRUE(coordinator_.Come().ok());
  }
  void TearDown() override {
    agent_ = nullptr;
    coordinator_.GoAway();
    std::filesystem::remove_all(folder_);
  }

  AgentOptions Options() const {
    AgentOptions options;
    options.coordinator = coordinator_.address();
    options.node = "node0";
    options.slots = 2;
    options.work_dir = folder_ + "/work";
    options.trainer = EVENSTEP_FAKE_TRAINER;
    options.metrics_listen = "";
    return options;
  }

  void StartAgent() { StartAgent(Options()); }
  void StartAgent(const AgentOptions& options) {
    auto agent = Agent::Start(options);
    ASSERT_TRUE(agent.ok()) << agent.status();
    agent_ = *std::move(agent);
    ASSERT_TRUE(coordinator_.Await(IsHello));
  }

  v1::AttemptId Id(const std::string& job = "job") const {
    v1::AttemptId id;
    id.set_job_id(job);
    id.set_attempt(1);
    id.set_generation(3);
    return id;
  }

  // A job that does what its name says (fake_trainer.cc).
  void Assign(const std::string& behaviour, int ranks,
              const std::string& job = "job", int stop_ms = 200) {
    Reserve(behaviour, ranks, job, stop_ms);
    SendBegin(job);
  }

  // The first half of a start.
  void Reserve(const std::string& behaviour, int ranks,
               const std::string& job = "job", int stop_ms = 200) {
    v1::CoordinatorMessage message;
    v1::Assignment* assignment = message.mutable_assignment();
    *assignment->mutable_attempt() = Id(job);
    assignment->set_first_rank(0);
    assignment->set_num_ranks(ranks);
    assignment->add_placements()->set_num_ranks(ranks);
    assignment->mutable_spec()->set_name(behaviour);
    assignment->mutable_spec()->set_steps(2);
    assignment->mutable_spec()->mutable_data()->set_source("text:/usr");
    assignment->mutable_spec()->mutable_timeouts()->set_stop_ms(stop_ms);
    ASSERT_TRUE(coordinator_.Send(std::move(message)));
  }

  void SendBegin(const std::string& job = "job") {
    v1::CoordinatorMessage message;
    *message.mutable_begin()->mutable_attempt() = Id(job);
    ASSERT_TRUE(coordinator_.Send(std::move(message)));
  }

  void SendPlan(int64_t step, int64_t generation = 3) {
    v1::CoordinatorMessage message;
    *message.mutable_plan()->mutable_attempt() = Id();
    message.mutable_plan()->mutable_plan()->set_step(step);
    message.mutable_plan()->mutable_plan()->set_generation(generation);
    ASSERT_TRUE(coordinator_.Send(std::move(message)));
  }

  void SendAbandon() {
    v1::CoordinatorMessage message;
    *message.mutable_abandon()->mutable_attempt() = Id();
    message.mutable_abandon()->set_message("a peer is gone");
    ASSERT_TRUE(coordinator_.Send(std::move(message)));
  }

  // Living trainers by rank, from the agent's own record.
  std::map<int, pid_t> Pids() const {
    std::ifstream file(folder_ + "/work/processes");
    std::map<int, pid_t> pids;
    std::string job;
    int64_t ticks;
    int attempt, rank;
    for (pid_t pid; file >> pid >> ticks >> job >> attempt >> rank;) {
      pids[rank] = pid;
    }
    return pids;
  }

  v1::TrainerExited ExitOf(int rank) const {
    for (const v1::AgentMessage& message : coordinator_.Received()) {
      if (message.has_exited() && message.exited().rank() == rank) {
        return message.exited();
      }
    }
    ADD_FAILURE() << "no exit of rank " << rank;
    return {};
  }

  std::string LogText() const {
    std::string text;
    for (const v1::AgentMessage& message : coordinator_.Received()) {
      for (const v1::LogLine& line : message.logs().lines()) {
        absl::StrAppend(&text, line.rank(), ":", line.text(), "\n");
      }
    }
    return text;
  }

  std::string folder_;
  FakeCoordinator coordinator_;
  std::unique_ptr<Agent> agent_;
};

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_AGENT_FIXTURE_H_
