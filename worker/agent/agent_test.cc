#include "worker/agent/agent.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/fake_coordinator.h"
#include "worker/agent/process.h"

extern char** environ;

namespace evenstep::agent {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kSoon = absl::Seconds(20);

bool IsExit(const v1::AgentMessage& m) { return m.has_exited(); }
bool IsEnded(const v1::AgentMessage& m) { return m.has_ended(); }
bool IsStarted(const v1::AgentMessage& m) { return m.has_started(); }
bool IsHello(const v1::AgentMessage& m) { return m.has_hello(); }
bool IsStep(const v1::AgentMessage& m) { return m.has_step(); }

bool Becomes(const std::function<bool()>& condition) {
  const absl::Time end = absl::Now() + kSoon;
  while (!condition()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

class AgentTest : public testing::Test {
 protected:
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

  void StartAgent() {
    auto agent = Agent::Start(Options());
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

TEST_F(AgentTest, AJobRunsToItsEndAndEverythingIsReported) {
  StartAgent();
  Assign("finish", 2);
  ASSERT_TRUE(coordinator_.Await(IsStarted, 2));
  SendPlan(0);
  SendPlan(1, /*generation=*/2);  // of another generation: dropped
  SendPlan(1);
  ASSERT_TRUE(coordinator_.Await(IsEnded));
  EXPECT_TRUE(coordinator_.Await(IsStep, 4));
  const v1::TrainerExited exited = ExitOf(0);
  EXPECT_TRUE(exited.clean()) << exited.message();
  EXPECT_EQ(exited.steps_done(), 2);
  EXPECT_EQ(exited.weights_path(),
            folder_ + "/work/out/job/weights.safetensors");
  EXPECT_TRUE(std::filesystem::is_directory(folder_ + "/work/out/job"));
  EXPECT_TRUE(ExitOf(1).clean());
  EXPECT_TRUE(Pids().empty());
  for (const v1::AgentMessage& message : coordinator_.Received()) {
    if (message.has_lengths()) {
      EXPECT_EQ(message.lengths().report().generation(), 3);
      EXPECT_EQ(message.lengths().attempt().job_id(), "job");
    }
  }
}

TEST_F(AgentTest, AStopReachesEveryTrainerAndIsClean) {
  StartAgent();
  Assign("finish", 2);
  ASSERT_TRUE(coordinator_.Await(IsStarted, 2));
  v1::CoordinatorMessage message;
  *message.mutable_stop()->mutable_attempt() = Id();
  ASSERT_TRUE(coordinator_.Send(std::move(message)));
  ASSERT_TRUE(coordinator_.Await(IsEnded));
  EXPECT_TRUE(ExitOf(0).clean());
  EXPECT_TRUE(ExitOf(1).clean());
}

TEST_F(AgentTest, AKilledTrainerIsReportedWithItsSignalWithinASecond) {
  StartAgent();
  Assign("finish", 2);
  ASSERT_TRUE(coordinator_.Await(IsStarted, 2));
  ASSERT_EQ(Pids().size(), 2u);
  kill(Pids()[1], SIGKILL);
  ASSERT_TRUE(coordinator_.Await(IsExit, 1, absl::Seconds(1)));
  const v1::TrainerExited exited = ExitOf(1);
  EXPECT_EQ(exited.signal(), SIGKILL);
  EXPECT_FALSE(exited.clean());
  EXPECT_THAT(exited.message(), HasSubstr("signal 9"));
  EXPECT_FALSE(coordinator_.Await(IsEnded, 1, absl::ZeroDuration()))
      << "rank 0 still lives";
  SendAbandon();
  EXPECT_TRUE(coordinator_.Await(IsEnded));
}

TEST_F(AgentTest, ACrashIsReportedWithTheLastWords) {
  StartAgent();
  Assign("crash", 1);
  ASSERT_TRUE(coordinator_.Await(IsEnded));
  EXPECT_EQ(ExitOf(0).signal(), SIGSEGV);
  EXPECT_THAT(ExitOf(0).message(), HasSubstr("about to crash"));
}

TEST_F(AgentTest, ExitStatusAndAnEndWithoutFinishedAreNotClean) {
  StartAgent();
  Assign("exit3", 1);
  ASSERT_TRUE(coordinator_.Await(IsEnded));
  EXPECT_EQ(ExitOf(0).exit_status(), 3);
  EXPECT_FALSE(ExitOf(0).clean());
  Assign("silent", 1, "other");
  ASSERT_TRUE(coordinator_.Await(IsEnded, 2));
  for (const v1::AgentMessage& message : coordinator_.Received()) {
    if (!message.has_exited()) continue;
    EXPECT_FALSE(message.exited().clean()) << message.exited().message();
  }
}

TEST_F(AgentTest, AFailureBecomesAnAbandonRequestBeforeTheExit) {
  StartAgent();
  Assign("fail", 1);
  ASSERT_TRUE(coordinator_.Await(IsEnded));
  std::vector<std::string> order;
  for (const v1::AgentMessage& message : coordinator_.Received()) {
    if (message.has_abandon()) {
      EXPECT_EQ(message.abandon().reason(), "NOT_FINITE");
      EXPECT_EQ(message.abandon().step(), 4);
      order.push_back("abandon");
    }
    if (message.has_exited()) order.push_back("exit");
    if (message.has_ended()) order.push_back("ended");
  }
  EXPECT_THAT(order, testing::ElementsAre("abandon", "exit", "ended"));
  EXPECT_THAT(ExitOf(0).message(), HasSubstr("loss of step 4"));
}

TEST_F(AgentTest, AHangingTrainerIsKilledAfterTheGraceAndNothingIsLeft) {
  StartAgent();
  Assign("hang", 2);
  ASSERT_TRUE(Becomes([&] { return Pids().size() == 2; }));
  const auto pids = Pids();
  kill(pids.at(0), SIGSTOP);  // a stopped one too
  const absl::Time start = absl::Now();
  SendAbandon();
  ASSERT_TRUE(coordinator_.Await(IsEnded));
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(190));
  EXPECT_LT(absl::Now() - start, absl::Seconds(3));
  EXPECT_EQ(ExitOf(0).signal(), SIGKILL);
  EXPECT_EQ(ExitOf(1).signal(), SIGKILL);
  for (const auto& [rank, pid] : pids) {
    EXPECT_FALSE(ProcessStartTicks(pid).ok()) << pid;
  }
}

TEST_F(AgentTest, OutputIsForwardedWithItsPartialLastLineAndKept) {
  StartAgent();
  Assign("flood", 1);
  ASSERT_TRUE(coordinator_.Await(IsEnded));
  const std::string text = LogText();
  EXPECT_THAT(text, HasSubstr("0:rank 0 of 1 runs flood\n"));
  EXPECT_THAT(text, HasSubstr("0:line 0\n"));
  EXPECT_THAT(text, HasSubstr("lines were not sent"));  // above the rate
  EXPECT_FALSE(absl::StrContains(text, "0:line 4990\n"));
  std::ifstream file(folder_ + "/work/attempts/job.1/rank-0.log");
  std::stringstream kept;
  kept << file.rdbuf();
  EXPECT_THAT(kept.str(), HasSubstr("line 4999\n"));
  EXPECT_TRUE(absl::EndsWith(kept.str(), "the end, without a line end"));
}

TEST_F(AgentTest, ThePartialLastLineOfAQuietTrainerIsSent) {
  StartAgent();
  Assign("rendezvous", 2);
  ASSERT_TRUE(coordinator_.Await(IsEnded));
  EXPECT_TRUE(ExitOf(0).clean()) << ExitOf(0).message();
  EXPECT_TRUE(ExitOf(1).clean()) << ExitOf(1).message();
  EXPECT_THAT(LogText(), HasSubstr("0:got value of 1\n"));
  EXPECT_THAT(LogText(), HasSubstr("1:got value of 0\n"));
}

TEST_F(AgentTest, TrainersOutliveACoordinatorAndNothingIsLost) {
  StartAgent();
  Assign("finish", 2);
  ASSERT_TRUE(coordinator_.Await(IsStarted, 2));
  SendPlan(0);
  ASSERT_TRUE(coordinator_.Await(IsStep, 2));
  const auto pids = Pids();
  coordinator_.GoAway();
  kill(pids.at(1), SIGKILL);  // told after the reconnect
  ASSERT_TRUE(Becomes([&] { return Pids().size() == 1; }));
  ASSERT_TRUE(coordinator_.Come().ok());
  ASSERT_TRUE(coordinator_.Await(IsHello, 2));
  ASSERT_TRUE(coordinator_.Await(IsExit));
  EXPECT_EQ(ExitOf(1).signal(), SIGKILL);
  EXPECT_TRUE(ProcessStartTicks(pids.at(0)).ok()) << "rank 0 should live";
  std::vector<v1::AgentHello> hellos;
  for (const v1::AgentMessage& message : coordinator_.Received()) {
    if (message.has_hello()) hellos.push_back(message.hello());
  }
  EXPECT_EQ(hellos[0].incarnation(), hellos[1].incarnation());
  EXPECT_EQ(hellos[0].running_size(), 0);
  ASSERT_EQ(hellos[1].running_size(), 1);
  EXPECT_EQ(hellos[1].running(0).generation(), 3);
  EXPECT_TRUE(coordinator_.Await(IsStep, 4)) << "young reports come again";
  SendAbandon();
  EXPECT_TRUE(coordinator_.Await(IsEnded));
}

TEST_F(AgentTest, MoreRanksThanSlotsAreRefusedWithTheNumbers) {
  StartAgent();
  Assign("finish", 3);
  ASSERT_TRUE(coordinator_.Await(IsEnded));
  bool refused = false;
  for (const v1::AgentMessage& message : coordinator_.Received()) {
    if (!message.has_abandon()) continue;
    refused = true;
    EXPECT_EQ(message.abandon().reason(), "START_FAILED");
    EXPECT_EQ(message.abandon().rank(), -1);
    EXPECT_THAT(message.abandon().message(), HasSubstr("2 slots"));
    EXPECT_THAT(message.abandon().message(), HasSubstr("wants 3"));
  }
  EXPECT_TRUE(refused);
}

TEST_F(AgentTest, AnUnknownAttemptIsConfirmedGone) {
  StartAgent();
  SendAbandon();
  EXPECT_TRUE(coordinator_.Await(IsEnded));
}

TEST_F(AgentTest, ATrainerBinaryThatIsMissingFailsTheStart) {
  AgentOptions options = Options();
  options.trainer = folder_ + "/missing";
  auto agent = Agent::Start(options);
  ASSERT_TRUE(agent.ok()) << agent.status();
  ASSERT_TRUE(coordinator_.Await(IsHello));
  Assign("finish", 1);
  ASSERT_TRUE(coordinator_.Await(IsEnded));
  EXPECT_TRUE(coordinator_.Await([](const v1::AgentMessage& m) {
    return m.abandon().reason() == "START_FAILED" &&
           absl::StrContains(m.abandon().message(), "/missing");
  }));
}

TEST_F(AgentTest, StopTellsTheCoordinatorAndLeavesNothingBehind) {
  StartAgent();
  Assign("hang", 1);
  Assign("finish", 1, "other");
  ASSERT_TRUE(Becomes([&] { return !Pids().empty(); }));
  ASSERT_TRUE(coordinator_.Await(IsStarted));
  const absl::Time start = absl::Now();
  agent_->Stop(absl::Seconds(5));
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  EXPECT_TRUE(Pids().empty());
  EXPECT_TRUE(coordinator_.Await(
      [](const v1::AgentMessage& m) {
        return m.abandon().reason() == "AGENT_STOPPING";
      },
      2, absl::Seconds(1)));
  EXPECT_TRUE(coordinator_.Await(IsEnded, 2, absl::Seconds(1)));
}

TEST_F(AgentTest, StopWithoutACoordinatorEnds) {
  StartAgent();
  coordinator_.GoAway();
  const absl::Time start = absl::Now();
  agent_->Stop(absl::Seconds(5));
  EXPECT_LT(absl::Now() - start, absl::Seconds(3));
}

TEST_F(AgentTest, HeartbeatsCountUp) {
  StartAgent();
  EXPECT_TRUE(coordinator_.Await(
      [](const v1::AgentMessage& m) { return m.heartbeat().sequence() == 5; }));
}

TEST(AgentBudgetTest, TrainersEndWhenTheCoordinatorIsAwayForTooLong) {
  char name[] = "/tmp/evenstep-agent-XXXXXX";
  const std::string folder = mkdtemp(name);
  FakeCoordinator coordinator(/*reconnect_budget_ms=*/300);
  ASSERT_TRUE(coordinator.Come().ok());
  AgentOptions options;
  options.coordinator = coordinator.address();
  options.work_dir = folder + "/work";
  options.trainer = EVENSTEP_FAKE_TRAINER;
  options.metrics_listen = "";
  auto agent = Agent::Start(options);
  ASSERT_TRUE(agent.ok()) << agent.status();
  ASSERT_TRUE(coordinator.Await(IsHello));
  v1::CoordinatorMessage message;
  v1::Assignment* assignment = message.mutable_assignment();
  assignment->mutable_attempt()->set_job_id("job");
  assignment->mutable_attempt()->set_attempt(1);
  assignment->set_num_ranks(1);
  assignment->add_placements()->set_num_ranks(1);
  assignment->mutable_spec()->mutable_data()->set_source("text:/usr");
  ASSERT_TRUE(coordinator.Send(std::move(message)));
  ASSERT_TRUE(coordinator.Await(IsStarted));
  coordinator.GoAway();
  const auto recorded = [&] {
    return std::filesystem::file_size(folder + "/work/processes");
  };
  ASSERT_GT(recorded(), 0u);
  EXPECT_TRUE(Becomes([&] { return recorded() == 0; }));
  ASSERT_TRUE(coordinator.Come().ok());
  EXPECT_TRUE(coordinator.Await([](const v1::AgentMessage& m) {
    return m.abandon().reason() == "RECONNECT_BUDGET_SPENT";
  }));
  *agent = nullptr;
  std::filesystem::remove_all(folder);
}

TEST_F(AgentTest, TheDaemonLeavesOnSigtermWithStatusZero) {
  auto worker = Spawn(EVENSTEP_WORKER_BINARY,
                      {"--coordinator=" + coordinator_.address(),
                       "--node=node0", "--work-dir=" + folder_ + "/work",
                       absl::StrCat("--trainer=", EVENSTEP_FAKE_TRAINER)});
  ASSERT_TRUE(worker.ok()) << worker.status();
  ASSERT_TRUE(coordinator_.Await(IsHello));
  Assign("finish", 1);
  ASSERT_TRUE(coordinator_.Await(IsStarted));
  const pid_t trainer = Pids()[0];
  kill(worker->pid, SIGTERM);
  AwaitExit(worker->pid);
  const ProcessEnd end = Reap(worker->pid);
  EXPECT_EQ(end.signal, 0);
  EXPECT_EQ(end.exit_status, 0);
  EXPECT_FALSE(ProcessStartTicks(trainer).ok());
  EXPECT_TRUE(coordinator_.Await(IsEnded));
}

TEST_F(AgentTest, MetricsAreServedAndATakenPortIsAnError) {
  AgentMetrics first;
  const auto address = first.Serve("127.0.0.1:0");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_FALSE(absl::EndsWith(*address, ":0")) << *address;
  AgentMetrics second;
  EXPECT_TRUE(absl::IsUnavailable(second.Serve(*address).status()));
}

TEST_F(AgentTest, BadSettingsAreRefusedWithTheFlag) {
  AgentOptions options = Options();
  options.slots = 0;
  EXPECT_THAT(std::string(Agent::Start(options).status().message()),
              HasSubstr("--slots=0"));
  options = Options();
  options.work_dir = folder_ + "/" + std::string(100, 'x');
  EXPECT_THAT(std::string(Agent::Start(options).status().message()),
              HasSubstr("--work-dir="));
}

// The real binary, killed: its trainer does not leave by itself here, and the
// next agent of the folder ends it before it greets.
TEST_F(AgentTest, ARestartedAgentEndsWhatItsPredecessorLeft) {
  const std::vector<std::string> arguments = {
      "--coordinator=" + coordinator_.address(), "--node=node0",
      "--work-dir=" + folder_ + "/work",
      absl::StrCat("--trainer=", EVENSTEP_FAKE_TRAINER)};
  auto worker = Spawn(EVENSTEP_WORKER_BINARY, arguments);
  ASSERT_TRUE(worker.ok()) << worker.status();
  ASSERT_TRUE(coordinator_.Await(IsHello));
  Assign("orphan", 1);
  ASSERT_TRUE(Becomes([&] { return Pids().size() == 1; }));
  const pid_t orphan = Pids()[0];
  ASSERT_TRUE(
      Becomes([&] { return absl::StrContains(LogText(), "runs orphan"); }));
  KillGroup(worker->pid);
  AwaitExit(worker->pid);
  Reap(worker->pid);
  ASSERT_TRUE(ProcessStartTicks(orphan).ok()) << "it should be left behind";
  auto agent = Agent::Start(Options());
  ASSERT_TRUE(agent.ok()) << agent.status();
  EXPECT_FALSE(ProcessStartTicks(orphan).ok());
  EXPECT_TRUE(coordinator_.Await(IsHello, 2));
  EXPECT_TRUE(Pids().empty());
}

}  // namespace
}  // namespace evenstep::agent
