#include "base/event_loop.h"

#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep {
namespace {

using testing::ElementsAre;

TEST(EventLoopTest, FunctionsRunInTheOrderTheyWerePosted) {
  EventLoop loop("test");
  std::vector<int> seen;
  for (int i = 0; i < 3; ++i) loop.Post([&seen, i] { seen.push_back(i); });
  EXPECT_TRUE(loop.Call([] {}));
  EXPECT_THAT(seen, ElementsAre(0, 1, 2));
}

TEST(EventLoopTest, TimersRunInTheOrderOfTheirTimes) {
  EventLoop loop("test");
  std::vector<int> seen;
  absl::Notification done;
  loop.PostAfter(absl::Milliseconds(20), [&] {
    seen.push_back(2);
    done.Notify();
  });
  loop.PostAfter(absl::Milliseconds(1), [&] { seen.push_back(1); });
  done.WaitForNotification();
  loop.Stop();
  EXPECT_THAT(seen, ElementsAre(1, 2));
}

TEST(EventLoopTest, StopRunsWhatWasPostedAndDropsTimers) {
  EventLoop loop("test");
  int ran = 0;
  loop.PostAfter(absl::Hours(1), [&] { ran += 100; });
  loop.Post([&] { ++ran; });
  loop.Stop();
  EXPECT_FALSE(loop.Post([&] { ran += 100; }));
  EXPECT_FALSE(loop.PostAfter(absl::ZeroDuration(), [&] { ran += 100; }));
  EXPECT_FALSE(loop.Call([&] { ran += 100; }));
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace evenstep
