#include "worker/agent/agent.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/agent_fixture.h"

namespace evenstep::agent {
namespace {

using testing::HasSubstr;

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
    if (message.has_started()) {
      EXPECT_EQ(message.started().emulated_link(), "EMULATED by the fake");
    }
    if (message.has_lengths()) {
      EXPECT_EQ(message.lengths().report().generation(), 3);
      EXPECT_EQ(message.lengths().attempt().job_id(), "job");
    }
  }
}

TEST_F(AgentTest, AReportThatNoMessageCanCarryEndsItsJobOnce) {
  StartAgent();
  Assign("large", 1);
  const auto is_abandon = [](const v1::AgentMessage& m) {
    return m.has_abandon();
  };
  ASSERT_TRUE(coordinator_.Await(is_abandon));
  SendAbandon();
  ASSERT_TRUE(coordinator_.Await(IsEnded));
  int hellos = 0;
  for (const v1::AgentMessage& message : coordinator_.Received()) {
    hellos += message.has_hello() ? 1 : 0;
    if (!message.has_abandon()) continue;
    EXPECT_EQ(message.abandon().reason(), "REPORT_NOT_SENT");
    EXPECT_THAT(message.abandon().message(), HasSubstr("16777216"));
  }
  EXPECT_EQ(hellos, 1) << "the stream must not break on it";
}

TEST_F(AgentTest, WithoutTheFlagNothingListensOnOtherAddresses) {
  AgentOptions data_path = Options();
  data_path.listen_host = "0.0.0.0";
  AgentOptions metrics = Options();
  metrics.metrics_listen = "0.0.0.0:0";
  for (AgentOptions options : {data_path, metrics}) {
    const absl::Status refused = CompleteAgentOptions(&options);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    options.insecure_allow_remote = true;
    EXPECT_TRUE(CompleteAgentOptions(&options).ok());
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
  const std::string kept(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(kept, HasSubstr("line 4999\n"));
  EXPECT_TRUE(absl::EndsWith(kept, "the end, without a line end"));
}

TEST_F(AgentTest, TrainersFindEachOtherAndTheirLastWordsAreSent) {
  StartAgent();
  Assign("rendezvous", 2);
  ASSERT_TRUE(coordinator_.Await(IsEnded));
  EXPECT_TRUE(ExitOf(0).clean()) << ExitOf(0).message();
  EXPECT_TRUE(ExitOf(1).clean()) << ExitOf(1).message();
  EXPECT_THAT(LogText(), HasSubstr("0:got value of 1\n"));
  EXPECT_THAT(LogText(), HasSubstr("1:got value of 0\n"));
  EXPECT_THAT(LogText(), HasSubstr("1:no line end\n"));
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

TEST_F(AgentTest, NothingStartsBeforeTheWordToBegin) {
  StartAgent();
  Reserve("finish", 1);
  ASSERT_TRUE(coordinator_.Await(IsReady));
  EXPECT_TRUE(Pids().empty());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/work/attempts/job.1"));
  Assign("finish", 2, "large");  // one slot is taken
  EXPECT_TRUE(coordinator_.Await([](const v1::AgentMessage& m) {
    return absl::StrContains(m.abandon().message(), "1 in use");
  }));
  SendBegin();
  SendBegin();
  EXPECT_TRUE(coordinator_.Await(IsStarted));
  EXPECT_EQ(Pids().size(), 1u);
}

// As when the data's file system is gone.
TEST_F(AgentTest, ACheckThatHangsStopsNoHeartbeatAndIsRefusedAtItsLimit) {
  const auto looks_again = std::make_shared<absl::Notification>();
  AgentOptions options = Options();
  options.check_limit = absl::Milliseconds(100);
  options.check = [looks_again](const v1::Assignment&, const std::string&) {
    looks_again->WaitForNotification();
    return absl::OkStatus();
  };
  auto agent = Agent::Start(options);
  ASSERT_TRUE(agent.ok()) << agent.status();
  agent_ = *std::move(agent);
  ASSERT_TRUE(coordinator_.Await(IsHello));
  Reserve("finish", 1);
  EXPECT_TRUE(coordinator_.Await(
      [](const v1::AgentMessage& m) { return m.has_heartbeat(); }, 3));
  EXPECT_TRUE(coordinator_.Await(IsEnded));
  EXPECT_TRUE(coordinator_.Await([](const v1::AgentMessage& m) {
    return m.abandon().reason() == "START_FAILED" &&
           absl::StrContains(m.abandon().message(), "no answer within 100ms");
  }));
  EXPECT_FALSE(coordinator_.Await(IsReady, 1, absl::ZeroDuration()));
  agent_ = nullptr;  // waits for the hung check for a while, and no longer
  looks_again->Notify();
}

TEST_F(AgentTest, WhatWasOnlyTakenIsForgottenWithItsStream) {
  StartAgent();
  Reserve("finish", 2);
  ASSERT_TRUE(coordinator_.Await(IsReady));
  coordinator_.GoAway();
  ASSERT_TRUE(coordinator_.Come().ok());
  ASSERT_TRUE(coordinator_.Await(IsHello, 2));
  SendBegin();
  EXPECT_TRUE(coordinator_.Await(IsEnded));
  EXPECT_TRUE(Pids().empty());
  Assign("finish", 2, "other");  // its slots are free
  EXPECT_TRUE(coordinator_.Await(IsStarted, 2));
}

TEST_F(AgentTest, AnUnknownAttemptIsConfirmedGone) {
  StartAgent();
  SendAbandon();
  EXPECT_TRUE(coordinator_.Await(IsEnded));
}

TEST_F(AgentTest, ATrainerBinaryThatCannotRunIsRefusedWithTheFlag) {
  std::ofstream(folder_ + "/text") << "no program";
  std::filesystem::create_directories(folder_ + "/folder");
  for (const char* const name : {"missing", "text", "folder"}) {
    AgentOptions options = Options();
    options.trainer = folder_ + "/" + name;
    const absl::Status refused = Agent::Start(options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("--trainer=" + options.trainer));
  }
}

TEST_F(AgentTest, ATrainerBinaryThatGoesAwayFailsTheStart) {
  AgentOptions options = Options();
  options.trainer = folder_ + "/missing";
  std::filesystem::create_symlink(EVENSTEP_FAKE_TRAINER, options.trainer);
  auto agent = Agent::Start(options);
  ASSERT_TRUE(agent.ok()) << agent.status();
  std::filesystem::remove(options.trainer);
  ASSERT_TRUE(coordinator_.Await(IsHello));
  Assign("finish", 1);
  ASSERT_TRUE(coordinator_.Await(IsEnded));
  EXPECT_TRUE(coordinator_.Await([](const v1::AgentMessage& m) {
    return m.abandon().reason() == "START_FAILED" &&
           absl::StrContains(m.abandon().message(), "/missing");
  }));
}

TEST_F(AgentTest, HeartbeatsCountUp) {
  StartAgent();
  EXPECT_TRUE(coordinator_.Await(
      [](const v1::AgentMessage& m) { return m.heartbeat().sequence() == 5; }));
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

}  // namespace
}  // namespace evenstep::agent
