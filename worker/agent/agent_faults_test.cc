// Every way in which a trainer, a coordinator or the agent itself can end,
// caused on purpose.

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/agent.h"
#include "worker/agent/agent_fixture.h"
#include "worker/agent/process.h"

namespace evenstep::agent {
namespace {

using testing::HasSubstr;

// The page of metrics that is served at 127.0.0.1:PORT; empty: nothing answers.
std::string Scrape(const std::string& address) {
  const std::vector<std::string> parts = absl::StrSplit(address, ':');
  int port = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &port)) return "";
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int socket_fd = socket(AF_INET, SOCK_STREAM, 0);
  std::string page;
  if (connect(socket_fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) {
    const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
    send(socket_fd, request.data(), request.size(), MSG_NOSIGNAL);
    char bytes[4096];
    for (ssize_t n; (n = recv(socket_fd, bytes, sizeof(bytes), 0)) > 0;) {
      page.append(bytes, n);
    }
  }
  close(socket_fd);
  return page;
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
      EXPECT_EQ(message.abandon().step(), 1);
      order.push_back("abandon");
    }
    if (message.has_exited()) order.push_back("exit");
    if (message.has_ended()) order.push_back("ended");
  }
  EXPECT_THAT(order, testing::ElementsAre("abandon", "exit", "ended"));
  EXPECT_THAT(ExitOf(0).message(), HasSubstr("loss of step 1"));
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

TEST_F(AgentTest, ATrainerThatWritesWeightsIsNotKilledMeanwhile) {
  StartAgent();
  Assign("keep", 1, "job", /*stop_ms=*/100);
  ASSERT_TRUE(
      Becomes([&] { return absl::StrContains(LogText(), "runs keep"); }));
  v1::CoordinatorMessage message;
  *message.mutable_abandon()->mutable_attempt() = Id();
  message.mutable_abandon()->set_weights_rank(1);
  ASSERT_TRUE(coordinator_.Send(std::move(message)));
  ASSERT_TRUE(coordinator_.Await(IsEnded));
  const v1::TrainerExited exited = ExitOf(0);
  EXPECT_EQ(exited.signal(), 0) << exited.message();
  EXPECT_EQ(exited.exit_status(), 20);
  EXPECT_THAT(exited.weights_path(), HasSubstr("/job/of-rank-1"));
  EXPECT_EQ(exited.weights_steps(), 2);
}

TEST_F(AgentTest, AnAgentThatStopsWaitsForWeightsAsLongAsItMay) {
  StartAgent();
  Assign("keep", 1, "job", /*stop_ms=*/100);
  ASSERT_TRUE(
      Becomes([&] { return absl::StrContains(LogText(), "runs keep"); }));
  agent_->Stop(absl::Seconds(10));
  ASSERT_TRUE(coordinator_.Await(IsEnded));
  EXPECT_EQ(ExitOf(0).exit_status(), 20) << ExitOf(0).message();
}

TEST_F(AgentTest, AnAgentThatMustStopKillsATrainerThatWrites) {
  StartAgent();
  Assign("keep", 1, "job", /*stop_ms=*/100);
  ASSERT_TRUE(
      Becomes([&] { return absl::StrContains(LogText(), "runs keep"); }));
  agent_->Stop(absl::Milliseconds(1700));  // 1500 of them are for the farewell
  ASSERT_TRUE(coordinator_.Await(IsEnded));
  EXPECT_EQ(ExitOf(0).signal(), SIGKILL);
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

TEST_F(AgentTest, TrainersHearThatTheirAgentRuns) {
  StartAgent();
  Assign("listen", 1);
  ASSERT_TRUE(coordinator_.Await(IsExit));
  EXPECT_TRUE(ExitOf(0).clean());
  EXPECT_THAT(LogText(), testing::HasSubstr("silence 68000"))
      << "the reconnect budget, and the time in which an agent ends them";
  EXPECT_THAT(LogText(), testing::HasSubstr("kept alive"));
}

TEST_F(AgentTest, AnAttemptThatHasEndedIsNotRunAgain) {
  StartAgent();
  Assign("exit3", 1);
  ASSERT_TRUE(coordinator_.Await(IsEnded));
  // The coordinator thinks that it was lost. The agent may still be clearing
  // the first one away, and then says nothing.
  ASSERT_TRUE(Becomes([&] {
    Assign("exit3", 1);
    return coordinator_.Await(IsEnded, 2, absl::Milliseconds(50));
  }));
  EXPECT_TRUE(coordinator_.Await(IsExit, 1));
  EXPECT_FALSE(coordinator_.Await(IsExit, 2, absl::Milliseconds(50)));
}

class AgentBudgetTest : public AgentTest {
 protected:
  AgentBudgetTest() : AgentTest(/*reconnect_budget_ms=*/300) {}
};

TEST_F(AgentBudgetTest, TrainersEndWhenTheCoordinatorIsAwayForTooLong) {
  StartAgent();
  Assign("finish", 1);
  ASSERT_TRUE(coordinator_.Await(IsStarted));
  coordinator_.GoAway();
  ASSERT_FALSE(Pids().empty());
  EXPECT_TRUE(Becomes([&] { return Pids().empty(); }));
  ASSERT_TRUE(coordinator_.Come().ok());
  EXPECT_TRUE(coordinator_.Await([](const v1::AgentMessage& m) {
    return m.abandon().reason() == "RECONNECT_BUDGET_SPENT";
  }));
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
  std::vector<v1::AgentHello> hellos;
  for (const v1::AgentMessage& message : coordinator_.Received()) {
    if (message.has_hello()) hellos.push_back(message.hello());
  }
  EXPECT_NE(hellos.front().incarnation(), hellos.back().incarnation());
  EXPECT_EQ(hellos.front().folder_id(), hellos.back().folder_id());
  EXPECT_FALSE(hellos.front().folder_id().empty());
  EXPECT_TRUE(Pids().empty());
}

TEST_F(AgentTest, OutputThatAFullDiskCannotKeepIsSentAndCounted) {
  AgentOptions options = Options();
  options.metrics_listen = "127.0.0.1:0";
  StartAgent(options);
  const std::string attempt = folder_ + "/work/attempts/job.1";
  std::filesystem::create_directories(attempt);
  std::filesystem::create_symlink("/dev/full", attempt + "/rank-0.log");
  Assign("finish", 1);
  ASSERT_TRUE(coordinator_.Await(IsStarted));
  const std::string sent = "rank 0 of 1 runs finish\n";
  EXPECT_TRUE(
      Becomes([&] { return absl::StrContains(LogText(), "0:" + sent); }));
  EXPECT_THAT(LogText(), HasSubstr("No space left on device"));
  EXPECT_THAT(Scrape(agent_->metrics_address()),
              HasSubstr(absl::StrCat("evenstep_agent_log_bytes_not_kept_total ",
                                     sent.size(), "\n")));
}

TEST_F(AgentTest, AnAgentWhoseJobsMayReadEverythingWarns) {
  for (const bool everything : {true, false}) {
    AgentOptions options = Options();
    options.work_dir = folder_ + (everything ? "/all" : "/some");
    options.data_root = everything ? "/" : folder_;
    testing::internal::CaptureStderr();
    const auto agent = Agent::Start(options);
    const std::string text = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(agent.ok()) << agent.status();
    EXPECT_EQ(absl::StrContains(text, "data_root_is_everything"), everything)
        << text;
  }
}

}  // namespace
}  // namespace evenstep::agent
