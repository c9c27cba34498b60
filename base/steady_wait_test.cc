#include "base/steady_wait.h"

#include <thread>

#include "base/clock.h"
#include "gtest/gtest.h"

namespace evenstep {
namespace {

TEST(SteadyConditionTest, AWaitEndsWhenItsPredicateBecomesTrue) {
  absl::Mutex mutex;
  SteadyCondition changed;
  bool ready = false;
  std::thread other([&] {
    absl::MutexLock lock(&mutex);
    ready = true;
    changed.NotifyAll();
  });
  {
    absl::MutexLock lock(&mutex);
    EXPECT_TRUE(
        changed.WaitFor(mutex, absl::Minutes(1), [&] { return ready; }));
    EXPECT_TRUE(changed.WaitFor(mutex, -absl::Seconds(1), [&] {
      return ready;
    })) << "what is true needs no time";
  }
  other.join();
}

TEST(SteadyConditionTest, AWaitEndsAfterItsTimeWithTheMutexHeld) {
  absl::Mutex mutex;
  SteadyCondition changed;
  const absl::Duration start = RealClock().Monotonic();
  absl::MutexLock lock(&mutex);
  EXPECT_FALSE(
      changed.WaitFor(mutex, absl::Milliseconds(20), [] { return false; }));
  mutex.AssertHeld();
  EXPECT_GE(RealClock().Monotonic() - start, absl::Milliseconds(20));
}

TEST(SteadyNotificationTest, ItHappensOnceForAllThatWait) {
  SteadyNotification happened;
  EXPECT_FALSE(happened.HasBeenNotified());
  EXPECT_FALSE(happened.WaitFor(absl::ZeroDuration()));
  std::thread first([&] { happened.Wait(); });
  std::thread second([&] { EXPECT_TRUE(happened.WaitFor(absl::Minutes(1))); });
  happened.Notify();
  happened.Notify();
  first.join();
  second.join();
  EXPECT_TRUE(happened.HasBeenNotified());
}

}  // namespace
}  // namespace evenstep
