#include "base/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
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

TEST(SignalsTest, AFileThatGrowsTooLargeIsAnErrorNotTheEnd) {
  BlockSignals();
  for (const int ignored : {SIGPIPE, SIGXFSZ}) {
    struct sigaction action = {};
    ASSERT_EQ(sigaction(ignored, nullptr, &action), 0);
    EXPECT_EQ(action.sa_handler, SIG_IGN) << strsignal(ignored);
  }
}

int NumThreads() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return static_cast<int>(std::distance(begin(threads), end(threads)));
}

TEST(SignalsTest, WaiterEndsWithoutASignal) {
  BlockSignals();
  const int num_threads = NumThreads();
  int called = 0;
  for (int i = 0; i < 20; ++i) {
    SignalWaiter waiter(
        {.on_stop = [&] { ++called; }, .on_reload = [&] { ++called; }});
  }
  EXPECT_EQ(called, 0) << "its own signal is none of the process's";
  // A thread that was joined may be in the list for a moment.
  for (int i = 0; i < 10000 && NumThreads() > num_threads; ++i) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(NumThreads(), num_threads);
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
