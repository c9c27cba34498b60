#include "base/steady_wait.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <ctime>
#include <thread>

#include "base/clock.h"
#include "gtest/gtest.h"

namespace {

constexpr clockid_t kNoClock = -1;
std::atomic<clockid_t> last_clock = kNoClock;

}  // namespace

// In the place of the C library's. A wait on the wall clock does not come here.
extern "C" int pthread_cond_clockwait(pthread_cond_t* condition,
                                      pthread_mutex_t* mutex, clockid_t clock,
                                      const timespec* end) {
  last_clock = clock;
  static const auto real = reinterpret_cast<decltype(&pthread_cond_clockwait)>(
      dlsym(RTLD_NEXT, "pthread_cond_clockwait"));
  return real(condition, mutex, clock, end);
}

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

TEST(SteadyConditionTest, AWaitGoesByTheMonotonicClock) {
  absl::Mutex mutex;
  SteadyCondition changed;
  absl::MutexLock lock(&mutex);
  last_clock = kNoClock;
  changed.WaitFor(mutex, absl::Milliseconds(1), [] { return false; });
  EXPECT_EQ(last_clock, CLOCK_MONOTONIC);
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
