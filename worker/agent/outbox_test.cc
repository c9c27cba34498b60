#include "worker/agent/outbox.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

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
  for (int64_t step : {1, 2, 3}) EXPECT_EQ(outbox.Add(Report(step)), 0);
  EXPECT_THAT(SendAll(outbox, absl::Seconds(1)), ElementsAre(1, 2, 3));
  EXPECT_THAT(SendAll(outbox, absl::Seconds(1)), IsEmpty());
}

TEST(OutboxTest, WhatMayBeLostIsSentAgainAfterAReconnect) {
  Outbox outbox;
  outbox.Add(Report(1));
  SendAll(outbox, absl::Seconds(1));
  outbox.Add(Report(2));
  SendAll(outbox, absl::Seconds(20));
  outbox.Add(Report(3));
  outbox.Reconnected(absl::Seconds(1) + kForgetAfter + absl::Seconds(1));
  EXPECT_THAT(SendAll(outbox, absl::Seconds(33)), ElementsAre(2, 3));
}

TEST(OutboxTest, LogsInFlightWhenAStreamBreaksAreSentAgain) {
  Outbox outbox;
  outbox.Add(Logs());
  outbox.Add(Report(1));
  EXPECT_THAT(SendAll(outbox, absl::Seconds(1)), ElementsAre(-1, 1));
  outbox.Add(Logs());
  outbox.Reconnected(absl::Seconds(2));
  EXPECT_THAT(SendAll(outbox, absl::Seconds(2)), ElementsAre(-1, 1, -1));
}

TEST(OutboxTest, AnOutboxIsBoundedInBytes) {
  const size_t size = Logs().ByteSizeLong();
  Outbox outbox(100, 3 * size);
  outbox.Add(Logs());
  SendAll(outbox, absl::Seconds(1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(outbox.Add(Logs()), 0) << i;
  EXPECT_EQ(outbox.size(), 3u) << "the one that was sent has gone";
  EXPECT_EQ(outbox.Add(Logs()), 1);
  EXPECT_EQ(outbox.bytes(), 3 * size);
  v1::AgentMessage large;
  large.mutable_logs()->add_lines()->set_text(std::string(10 * size, 'x'));
  EXPECT_EQ(outbox.Add(large), 3);
  EXPECT_EQ(outbox.size(), 1u) << "alone, however large";
}

TEST(OutboxTest, AFullOutboxGivesUpSentMessagesThenLogsThenTheOldest) {
  Outbox outbox(3);
  outbox.Add(Report(1));
  SendAll(outbox, absl::Seconds(1));
  outbox.Add(Report(2));
  outbox.Add(Logs());
  EXPECT_EQ(outbox.Add(Report(3)), 0);  // 1 was sent
  EXPECT_EQ(outbox.Add(Report(4)), 1);  // the log
  EXPECT_EQ(outbox.Add(Report(5)), 1);  // 2
  EXPECT_THAT(SendAll(outbox, absl::Seconds(2)), ElementsAre(3, 4, 5));
}

}  // namespace
}  // namespace evenstep::agent
