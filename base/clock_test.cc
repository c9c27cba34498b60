// Clock and back-off.
#include "base/clock.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <ctime>
#include <thread>

#include "base/backoff.h"
#include "gtest/gtest.h"

namespace evenstep {
namespace {

TEST(ClockTest, RealClockNeverGoesBack) {
  absl::Duration last = RealClock().Monotonic();
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration now = RealClock().Monotonic();
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_GT(RealClock().Wall(), absl::UnixEpoch());
}

TEST(ClockTest, FakeClockMovesOnlyWhenTold) {
  FakeClock clock;
  const absl::Duration start = clock.Monotonic();
  const absl::Time wall = clock.Wall();
  EXPECT_EQ(clock.Monotonic(), start);
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(clock.Monotonic() - start, absl::Seconds(3));
  EXPECT_EQ(clock.Wall() - wall, absl::Seconds(3));
}

TEST(BackoffTest, DoublesUpToTheCapAndStartsAgainAfterSuccess) {
  Backoff backoff({.first = absl::Seconds(1), .cap = absl::Seconds(3)},
                  [] { return 1.0; });
  EXPECT_EQ(backoff.Next(), absl::Seconds(1));
  EXPECT_EQ(backoff.Next(), absl::Seconds(2));
  EXPECT_EQ(backoff.Next(), absl::Seconds(3));
  EXPECT_EQ(backoff.Next(), absl::Seconds(3));
  backoff.Reset();
  EXPECT_EQ(backoff.Next(), absl::Seconds(1));
}

TEST(BackoffTest, EveryWaitLiesBetweenHalfAndAll) {
  Backoff backoff({.first = absl::Seconds(8), .cap = absl::Seconds(8)},
                  RandomUniform());
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration wait = backoff.Next();
    EXPECT_GE(wait, absl::Seconds(4));
    EXPECT_LE(wait, absl::Seconds(8));
  }
}

}  // namespace

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
