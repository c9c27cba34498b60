#include "worker/trainer/link/agent_link.h"

#include <sys/socket.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::trainer {
namespace {

using ::testing::HasSubstr;

class AgentLinkTest : public testing::Test {
 protected:
  AgentLinkTest() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    link_ = std::make_unique<AgentLink>(fds[0]);
    agent_ = std::make_unique<wire::FrameSocket>(fds[1]);
    plans_.Begin(/*generation=*/1, /*world=*/2);
  }

  void StartReading() {
    link_->StartReading(
        &plans_, {.on_abandon =
                      [this](const v1::AbandonStep& abandon) {
                        abandon_message_ = abandon.message();
                        abandoned_.Notify();
                      },
                  .on_gone = [this](const absl::Status&) { gone_.Notify(); }});
  }
  void FromAgent(const v1::ToTrainer& message) {
    ASSERT_TRUE(agent_->Send(message).ok());
  }
  // The agent's messages are read in order: once a key comes back, everything
  // before it has been handled.
  void WaitUntilHandled() {
    std::thread answer([this] {
      v1::ToAgent request;
      ASSERT_TRUE(agent_->Receive(&request).ok());
      v1::ToTrainer reply;
      reply.mutable_value()->set_request_id(request.get().request_id());
      reply.mutable_value()->set_found(true);
      FromAgent(reply);
    });
    EXPECT_TRUE(link_->Get("sync", absl::Seconds(5)).ok());
    answer.join();
  }

  PlanBook plans_;
  absl::Notification abandoned_;
  absl::Notification gone_;
  std::string abandon_message_;
  std::unique_ptr<wire::FrameSocket> agent_;
  std::unique_ptr<AgentLink> link_;
};

wire::StepPlan SmallPlan(int64_t generation) {
  wire::StepPlan plan;
  plan.generation = generation;
  plan.world = 2;
  plan.trained_tokens = 4;
  plan.micro_batches.resize(1);
  plan.micro_batches[0].sample_ids = {0};
  plan.micro_batches[0].lengths = {4};
  plan.digest = wire::StepPlanDigest(plan);
  return plan;
}

TEST_F(AgentLinkTest, TheFirstMessageSaysWhatToRun) {
  v1::ToTrainer message;
  message.mutable_start()->set_job_id("j");
  FromAgent(message);
  const auto start = link_->ReceiveStart();
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_EQ(start->job_id(), "j");
}

TEST_F(AgentLinkTest, AnotherFirstMessageIsRefused) {
  v1::ToTrainer message;
  message.mutable_stop();
  FromAgent(message);
  EXPECT_TRUE(absl::IsInvalidArgument(link_->ReceiveStart().status()));
}

TEST_F(AgentLinkTest, PlansGoIntoTheBookAndBadOnesDoNot) {
  StartReading();
  v1::ToTrainer message;
  *message.mutable_plan() = wire::ToProto(SmallPlan(/*generation=*/0));
  FromAgent(message);
  WaitUntilHandled();
  EXPECT_TRUE(plans_.refusal().ok()) << "an old generation's plan is no news";
  *message.mutable_plan() = wire::ToProto(SmallPlan(/*generation=*/1));
  message.mutable_plan()->set_digest(1);
  FromAgent(message);
  WaitUntilHandled();
  EXPECT_EQ(plans_.Get(0), nullptr);
  EXPECT_EQ(plans_.num_refused(), 2);
  EXPECT_FALSE(plans_.refusal().ok());

  *message.mutable_plan() = wire::ToProto(SmallPlan(/*generation=*/1));
  FromAgent(message);
  WaitUntilHandled();
  EXPECT_NE(plans_.Get(0), nullptr);
}

TEST_F(AgentLinkTest, AStopIsRemembered) {
  StartReading();
  EXPECT_FALSE(link_->StopRequested());
  v1::ToTrainer message;
  message.mutable_stop();
  FromAgent(message);
  WaitUntilHandled();
  EXPECT_TRUE(link_->StopRequested());
}

TEST_F(AgentLinkTest, ARendezvousAnswerReachesItsRequest) {
  StartReading();
  ASSERT_TRUE(link_->Set("k", "v").ok());
  v1::ToAgent seen;
  ASSERT_TRUE(agent_->Receive(&seen).ok());
  EXPECT_EQ(seen.set().key(), "k");
  EXPECT_EQ(seen.set().value(), "v");

  std::thread answer([this] {
    v1::ToAgent request;
    ASSERT_TRUE(agent_->Receive(&request).ok());
    EXPECT_EQ(request.get().wait_ms(), 1500);
    v1::ToTrainer reply;
    reply.mutable_value()->set_request_id(999);  // nobody's
    FromAgent(reply);
    reply.mutable_value()->set_request_id(request.get().request_id());
    reply.mutable_value()->set_found(true);
    reply.mutable_value()->set_value("there");
    FromAgent(reply);
  });
  const auto value = link_->Get("k", absl::Milliseconds(1500));
  answer.join();
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value, "there");
}

TEST_F(AgentLinkTest, AMissingKeyAndAnEndedGenerationAreToldApart) {
  StartReading();
  for (const std::string error : {"", "the generation is over"}) {
    std::thread answer([this, error] {
      v1::ToAgent request;
      ASSERT_TRUE(agent_->Receive(&request).ok());
      v1::ToTrainer reply;
      reply.mutable_value()->set_request_id(request.get().request_id());
      reply.mutable_value()->set_error(error);
      FromAgent(reply);
    });
    const absl::Status status = link_->Get("k", absl::Seconds(1)).status();
    answer.join();
    EXPECT_EQ(status.code(), error.empty() ? absl::StatusCode::kDeadlineExceeded
                                           : absl::StatusCode::kAborted);
  }
}

TEST_F(AgentLinkTest, AnAbandonWakesWhoeverWaitsForAKey) {
  StartReading();
  std::thread abandon([this] {
    v1::ToAgent request;
    ASSERT_TRUE(agent_->Receive(&request).ok());
    v1::ToTrainer message;
    message.mutable_abandon()->set_message("a peer died");
    FromAgent(message);
  });
  const absl::Status status = link_->Get("k", absl::Seconds(60)).status();
  abandon.join();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("a peer died"));
  abandoned_.WaitForNotification();
  EXPECT_EQ(abandon_message_, "a peer died");
  EXPECT_TRUE(absl::IsAborted(link_->Get("k", absl::Seconds(60)).status()));
}

TEST_F(AgentLinkTest, AClosedSocketIsNoticedAtOnce) {
  StartReading();
  agent_.reset();
  gone_.WaitForNotification();
  EXPECT_TRUE(absl::IsUnavailable(link_->Get("k", absl::Seconds(60)).status()));
  v1::ToAgent message;
  message.mutable_started();
  EXPECT_FALSE(link_->Send(message).ok());
}

TEST_F(AgentLinkTest, AnAgentThatIsSilentForTooLongIsTakenAsGone) {
  v1::ToTrainer message;
  message.mutable_start()->set_agent_silence_ms(150);
  FromAgent(message);
  ASSERT_TRUE(link_->ReceiveStart().ok());
  StartReading();
  message.mutable_keep_alive();
  for (int i = 0; i < 10; ++i) {  // twice the bound, never silent for so long
    absl::SleepFor(absl::Milliseconds(30));
    FromAgent(message);
  }
  EXPECT_FALSE(gone_.HasBeenNotified());
  EXPECT_TRUE(gone_.WaitForNotificationWithTimeout(absl::Seconds(20)));
  EXPECT_TRUE(absl::IsUnavailable(link_->Get("k", absl::Seconds(60)).status()));
}

TEST_F(AgentLinkTest, EndingTheLinkIsNotTheAgentsDeath) {
  StartReading();
  link_.reset();
  EXPECT_FALSE(gone_.HasBeenNotified());
}

TEST_F(AgentLinkTest, NoAgentIsAnErrorWithThePath) {
  const auto link = AgentLink::Connect("/nonexistent/agent.sock", 0);
  EXPECT_TRUE(absl::IsUnavailable(link.status()));
  EXPECT_THAT(std::string(link.status().message()),
              HasSubstr("/nonexistent/agent.sock"));
  EXPECT_TRUE(absl::IsInvalidArgument(
      AgentLink::Connect(std::string(200, 'x'), 0).status()));
}

}  // namespace
}  // namespace evenstep::trainer
