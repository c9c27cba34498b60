#include "base/event_loop.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// The wall clock of this test program; takes the place of the C library's.
std::atomic<time_t> wall_clock_shift_seconds = 0;

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long failed = syscall(SYS_clock_gettime, clock, time);
  if (failed == 0 && clock == CLOCK_REALTIME) {
    time->tv_sec += wall_clock_shift_seconds;
  }
  return static_cast<int>(failed);
}

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

TEST(EventLoopTest, AWallClockThatIsSetBackDelaysNoTimer) {
  EventLoop loop("test");
  std::promise<void> fired;
  loop.PostAfter(absl::Milliseconds(100), [&] { fired.set_value(); });
  wall_clock_shift_seconds = -3600;
  loop.Post([] {});  // the loop looks at its timers again
  const auto seen = fired.get_future().wait_for(std::chrono::seconds(10));
  wall_clock_shift_seconds = 0;
  loop.Stop();
  EXPECT_EQ(seen, std::future_status::ready);
}

TEST(EventLoopTest, AWallClockThatIsSetForwardHurriesNoTimer) {
  EventLoop loop("test");
  std::atomic<bool> fired = false;
  loop.PostAfter(absl::Minutes(10), [&] { fired = true; });
  wall_clock_shift_seconds = 3600;
  for (int i = 0; i < 3; ++i) loop.Call([] {});
  wall_clock_shift_seconds = 0;
  loop.Stop();
  EXPECT_FALSE(fired);
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
