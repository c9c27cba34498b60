#ifndef EVENSTEP_BASE_CLOCK_H_
#define EVENSTEP_BASE_CLOCK_H_

// Time as a dependency, so that leases, back-off and time-outs are tested
// without sleeping. Thread-safe. Monotonic time measures; wall time is only for
// showing to people and for stamps in the store.

#include <condition_variable>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace evenstep {

class Clock {
 public:
  virtual ~Clock() = default;
  // Time since an arbitrary fixed point; never goes back.
  virtual absl::Duration Monotonic() const = 0;
  virtual absl::Time Wall() const = 0;
};

// The machine's clocks. Lives for ever.
Clock& RealClock();

// Stands still until told otherwise.
class FakeClock : public Clock {
 public:
  absl::Duration Monotonic() const override;
  absl::Time Wall() const override;
  void Advance(absl::Duration by);

 private:
  mutable absl::Mutex mutex_;
  absl::Duration now_ ABSL_GUARDED_BY(mutex_) = absl::Seconds(1);
};

// Timed waits on the monotonic clock. Those of absl::Mutex, absl::CondVar and
// absl::Notification follow the wall clock: when it is set back by an hour, a
// wait of one second lasts an hour longer. All code that waits with a time-out
// uses these two classes, EventLoop, or absl::SleepFor (which is monotonic);
// tests/e2e/layering_test.py refuses the others. Thread-safe.

// A condition variable for state that an absl::Mutex guards.
class SteadyCondition {
 public:
  // Wakes all waits, which look at their predicates again. Call it after each
  // change that may make a predicate true, with the mutex held.
  void NotifyAll() { changed_.notify_all(); }

  // Gives the mutex up until `done()` is true or `timeout` has passed; takes it
  // again and returns done(). `done` runs with the mutex held.
  bool WaitFor(absl::Mutex& mutex, absl::Duration timeout,
               absl::FunctionRef<bool()> done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

 private:
  std::condition_variable_any changed_;
};

// Something that happens once.
class SteadyNotification {
 public:
  SteadyNotification() = default;
  ~SteadyNotification();  // after Notify has left
  SteadyNotification(const SteadyNotification&) = delete;
  SteadyNotification& operator=(const SteadyNotification&) = delete;

  // Further calls do nothing.
  void Notify() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasBeenNotified() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Wait() ABSL_LOCKS_EXCLUDED(mutex_) { WaitFor(absl::InfiniteDuration()); }
  // Whether it has happened, after at most `timeout`.
  bool WaitFor(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  SteadyCondition changed_;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace evenstep

#endif  // EVENSTEP_BASE_CLOCK_H_
