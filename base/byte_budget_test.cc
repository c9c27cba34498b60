#include "base/byte_budget.h"

#include <thread>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace evenstep {
namespace {

TEST(ByteBudgetTest, WhatIsGivenBackCanBeTakenAgain) {
  ByteBudget budget(10);
  EXPECT_TRUE(budget.TryTake(6));
  EXPECT_FALSE(budget.TryTake(5));
  EXPECT_TRUE(budget.TryTake(4));
  budget.Give(6);
  EXPECT_TRUE(budget.TryTake(5));
}

TEST(ByteBudgetTest, WhatIsLargerThanAllWaitsAlone) {
  ByteBudget budget(10);
  EXPECT_TRUE(budget.TryTake(100));
  EXPECT_FALSE(budget.TryTake(1));
  budget.Give(100);
  EXPECT_TRUE(budget.TryTake(1));
  EXPECT_FALSE(budget.TryTake(100));
}

TEST(ByteBudgetTest, TakeWaitsForRoom) {
  ByteBudget budget(10);
  budget.Take(10);
  absl::Notification taken;
  std::thread other([&] {
    budget.Take(1);
    taken.Notify();
  });
  EXPECT_FALSE(taken.HasBeenNotified());
  budget.Give(10);
  other.join();
  EXPECT_FALSE(budget.TryTake(10));
}

}  // namespace
}  // namespace evenstep
