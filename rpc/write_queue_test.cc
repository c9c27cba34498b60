#include "rpc/write_queue.h"

#include "gtest/gtest.h"

namespace evenstep::rpc {
namespace {

using Queue = WriteQueue<int>;

TEST(WriteQueueTest, OneWriteIsOutstandingAtATime) {
  Queue queue(8);
  ASSERT_TRUE(queue.Push(1).ok());
  ASSERT_TRUE(queue.Push(2).ok());
  EXPECT_EQ(queue.Next(), Queue::Step::kWrite);
  EXPECT_EQ(queue.in_flight(), 1);
  EXPECT_EQ(queue.Next(), Queue::Step::kNothing);
  queue.StepDone(true);
  EXPECT_EQ(queue.Next(), Queue::Step::kWrite);
  EXPECT_EQ(queue.in_flight(), 2);
}

TEST(WriteQueueTest, AFullQueueRefusesWithItsBound) {
  Queue queue(2);
  ASSERT_TRUE(queue.Push(1).ok());
  ASSERT_TRUE(queue.Push(2).ok());
  const absl::Status refused = queue.Push(3);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_NE(refused.message().find("holds 2"), absl::string_view::npos);
}

TEST(WriteQueueTest, AQueueIsBoundedInBytesToo) {
  Queue queue(8, 2 * sizeof(int));
  ASSERT_TRUE(queue.Push(1).ok());
  ASSERT_TRUE(queue.Push(2).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(queue.Push(3)));
  EXPECT_EQ(queue.Next(), Queue::Step::kWrite);
  queue.StepDone(true);
  EXPECT_TRUE(queue.Push(3).ok());
  Queue small(8, 1);
  EXPECT_TRUE(small.Push(1).ok()) << "alone, however large";
  EXPECT_FALSE(small.Push(2).ok());
}

TEST(WriteQueueTest, TheEndComesOnceAndAfterTheLastMessage) {
  Queue queue(8);
  ASSERT_TRUE(queue.Push(1).ok());
  queue.Close();
  EXPECT_TRUE(absl::IsCancelled(queue.Push(2)));
  EXPECT_EQ(queue.Next(), Queue::Step::kWrite);
  queue.StepDone(true);
  EXPECT_EQ(queue.Next(), Queue::Step::kFinish);
  EXPECT_EQ(queue.Next(), Queue::Step::kNothing);
  queue.StepDone(true);
  EXPECT_EQ(queue.Next(), Queue::Step::kNothing);
}

TEST(WriteQueueTest, DropKeepsOnlyWhatIsInFlight) {
  Queue queue(8);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue.Push(i).ok());
  EXPECT_EQ(queue.Next(), Queue::Step::kWrite);
  queue.Drop();
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.in_flight(), 0);
  queue.StepDone(true);
  EXPECT_EQ(queue.Next(), Queue::Step::kFinish);
}

TEST(WriteQueueTest, AFailedWriteEndsTheStream) {
  Queue queue(8);
  ASSERT_TRUE(queue.Push(1).ok());
  ASSERT_TRUE(queue.Push(2).ok());
  EXPECT_EQ(queue.Next(), Queue::Step::kWrite);
  queue.StepDone(false);
  EXPECT_TRUE(absl::IsCancelled(queue.Push(3)));
  EXPECT_EQ(queue.Next(), Queue::Step::kFinish);
}

}  // namespace
}  // namespace evenstep::rpc
