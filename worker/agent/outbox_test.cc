#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/coordinator_link.h"

namespace evenstep::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

v1::AgentMessage Report(int64_t step) {
  v1::AgentMessage message;
  message.mutable_step()->mutable_report()->set_step(step);
  return message;
}

v1::AgentMessage Logs() {
  v1::AgentMessage message;
  message.mutable_logs()->add_lines()->set_text("line");
  return message;
}

// Sends everything; -1 stands for logs.
std::vector<int64_t> SendAll(Outbox& outbox, absl::Duration now) {
  std::vector<int64_t> sent;
  while (const v1::AgentMessage* message = outbox.Next()) {
    sent.push_back(message->has_logs() ? -1 : message->step().report().step());
    outbox.MarkSent(now);
  }
  return sent;
}

TEST(OutboxTest, MessagesLeaveInOrder) {
  Outbox outbox;
  for (int64_t step : {1, 2, 3}) EXPECT_EQ(*outbox.Add(Report(step)), 0);
  EXPECT_THAT(SendAll(outbox, absl::Seconds(1)), ElementsAre(1, 2, 3));
  EXPECT_THAT(SendAll(outbox, absl::Seconds(1)), IsEmpty());
}

TEST(OutboxTest, WhatMayBeLostIsSentAgainAfterAReconnect) {
  Outbox outbox;
  ASSERT_TRUE(outbox.Add(Report(1)).ok());
  SendAll(outbox, absl::Seconds(1));
  ASSERT_TRUE(outbox.Add(Report(2)).ok());
  SendAll(outbox, absl::Seconds(20));
  ASSERT_TRUE(outbox.Add(Report(3)).ok());
  outbox.Reconnected(absl::Seconds(1) + kForgetAfter + absl::Seconds(1));
  EXPECT_THAT(SendAll(outbox, absl::Seconds(33)), ElementsAre(2, 3));
}

TEST(OutboxTest, LogsInFlightWhenAStreamBreaksAreSentAgain) {
  Outbox outbox;
  ASSERT_TRUE(outbox.Add(Logs()).ok());
  ASSERT_TRUE(outbox.Add(Report(1)).ok());
  EXPECT_THAT(SendAll(outbox, absl::Seconds(1)), ElementsAre(-1, 1));
  ASSERT_TRUE(outbox.Add(Logs()).ok());
  outbox.Reconnected(absl::Seconds(2));
  EXPECT_THAT(SendAll(outbox, absl::Seconds(2)), ElementsAre(-1, 1, -1));
}

TEST(OutboxTest, LogsAreBoundedInBytes) {
  const size_t size = Logs().ByteSizeLong();
  Outbox outbox(OutboxLimits{.messages = 100, .bytes = 3 * size});
  ASSERT_TRUE(outbox.Add(Logs()).ok());
  SendAll(outbox, absl::Seconds(1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(*outbox.Add(Logs()), 0) << i;
  EXPECT_EQ(outbox.size(), 3u) << "the one that was sent has gone";
  EXPECT_EQ(*outbox.Add(Logs()), 1);
  EXPECT_EQ(outbox.bytes(), 3 * size);
  v1::AgentMessage large;
  large.mutable_logs()->add_lines()->set_text(std::string(10 * size, 'x'));
  EXPECT_EQ(*outbox.Add(large), 3);
  EXPECT_EQ(outbox.size(), 1u) << "alone, however large";
}

TEST(OutboxTest, AFullOutboxThrowsLogsAwayAndNoReport) {
  Outbox outbox(OutboxLimits{.messages = 3});
  EXPECT_EQ(*outbox.Add(Report(1)), 0);
  SendAll(outbox, absl::Seconds(1));
  EXPECT_EQ(*outbox.Add(Logs()), 0);
  EXPECT_EQ(*outbox.Add(Report(2)), 0);
  EXPECT_EQ(*outbox.Add(Report(3)), 1) << "the log";
  EXPECT_EQ(*outbox.Add(Report(4)), 0);
  EXPECT_EQ(*outbox.Add(Logs()), 1) << "itself";
  outbox.Reconnected(absl::Seconds(2));
  EXPECT_THAT(SendAll(outbox, absl::Seconds(2)), ElementsAre(1, 2, 3, 4));
}

TEST(OutboxTest, LogsThatWereSentGoFirstAndUncounted) {
  Outbox outbox(OutboxLimits{.messages = 2});
  ASSERT_TRUE(outbox.Add(Report(1)).ok());
  ASSERT_TRUE(outbox.Add(Logs()).ok());
  SendAll(outbox, absl::Seconds(1));
  EXPECT_EQ(*outbox.Add(Report(2)), 0);
  EXPECT_THAT(SendAll(outbox, absl::Seconds(1)), ElementsAre(2));
  outbox.Reconnected(absl::Seconds(2));
  EXPECT_THAT(SendAll(outbox, absl::Seconds(2)), ElementsAre(1, 2));
}

TEST(OutboxTest, AReportThatDoesNotFitIsRefusedAndAnEndIsNot) {
  Outbox outbox(OutboxLimits{.report_messages = 2});
  ASSERT_TRUE(outbox.Add(Report(1)).ok());
  SendAll(outbox, absl::Seconds(1));
  ASSERT_TRUE(outbox.Add(Report(2)).ok());
  ASSERT_TRUE(outbox.Add(Report(3)).ok())
      << "in the place of 1, which was sent";
  EXPECT_TRUE(absl::IsResourceExhausted(outbox.Add(Report(4)).status()));
  v1::AgentMessage end;
  end.mutable_abandon()->set_reason("REPORT_NOT_SENT");
  EXPECT_TRUE(outbox.Add(end).ok());
  EXPECT_EQ(outbox.size(), 3u);
}

}  // namespace
}  // namespace evenstep::agent
