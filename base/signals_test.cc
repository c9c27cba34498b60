#include "base/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace evenstep {
namespace {

// Counts calls and waits for them.
class Counter {
 public:
  void Add() {
    absl::MutexLock lock(&mutex_);
    ++count_;
  }
  bool WaitFor(int count) {
    absl::MutexLock lock(&mutex_);
    const auto reached = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return count_ >= count;
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&reached),
                                   absl::Seconds(20));
  }

 private:
  absl::Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(SignalsTest, EachSignalReachesItsCallbackOnTheWaitersThread) {
  BlockSignals();
  Counter stops;
  Counter reloads;
  pthread_t caller = pthread_self();
  bool on_other_thread = false;
  SignalWaiter waiter({.on_stop = [&] { stops.Add(); },
                       .on_reload =
                           [&] {
                             on_other_thread =
                                 !pthread_equal(caller, pthread_self());
                             reloads.Add();
                           }});
  kill(getpid(), SIGHUP);
  EXPECT_TRUE(reloads.WaitFor(1));
  EXPECT_TRUE(on_other_thread);
  kill(getpid(), SIGTERM);
  EXPECT_TRUE(stops.WaitFor(1));
  kill(getpid(), SIGINT);
  EXPECT_TRUE(stops.WaitFor(2));
}

TEST(SignalsTest, WaiterEndsWithoutASignal) {
  BlockSignals();
  for (int i = 0; i < 20; ++i) SignalWaiter waiter({});
}

TEST(SignalsTest, WritingToAClosedPipeIsNoDeath) {
  BlockSignals();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(write(ends[1], "x", 1), -1);
  close(ends[1]);
}

}  // namespace
}  // namespace evenstep
