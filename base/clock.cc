#include "base/clock.h"

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"

namespace evenstep {
namespace {

class SystemClock : public Clock {
 public:
  absl::Duration Monotonic() const override {
    return absl::FromChrono(
        std::chrono::steady_clock::now().time_since_epoch());
  }
  absl::Time Wall() const override { return absl::Now(); }
};

}  // namespace

Clock& RealClock() {
  static SystemClock* const clock = new SystemClock;
  return *clock;
}

absl::Duration FakeClock::Monotonic() const {
  absl::MutexLock lock(&mutex_);
  return now_;
}

absl::Time FakeClock::Wall() const { return absl::UnixEpoch() + Monotonic(); }

void FakeClock::Advance(absl::Duration by) {
  absl::MutexLock lock(&mutex_);
  now_ += by;
}

namespace {

// A longer time-out makes no difference, and this one does not overflow.
constexpr absl::Duration kLongestWait = absl::Hours(24 * 365);

// What std::condition_variable_any calls a lock.
class MutexRef {
 public:
  explicit MutexRef(absl::Mutex& mutex) : mutex_(mutex) {}
  void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.Lock(); }
  void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.Unlock(); }

 private:
  absl::Mutex& mutex_;
};

}  // namespace

bool SteadyCondition::WaitFor(absl::Mutex& mutex, absl::Duration timeout,
                              absl::FunctionRef<bool()> done) {
  const auto end = std::chrono::steady_clock::now() +
                   absl::ToChronoNanoseconds(std::min(timeout, kLongestWait));
  MutexRef lock(mutex);
  while (!done()) {
    if (timeout == absl::InfiniteDuration()) {
      changed_.wait(lock);
    } else if (changed_.wait_until(lock, end) == std::cv_status::timeout) {
      return done();
    }
  }
  return true;
}

SteadyNotification::~SteadyNotification() { absl::MutexLock lock(&mutex_); }

void SteadyNotification::Notify() {
  absl::MutexLock lock(&mutex_);
  notified_ = true;
  changed_.NotifyAll();
}

bool SteadyNotification::HasBeenNotified() const {
  absl::MutexLock lock(&mutex_);
  return notified_;
}

bool SteadyNotification::WaitFor(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return changed_.WaitFor(mutex_, timeout, [this] {
    mutex_.AssertHeld();
    return notified_;
  });
}

}  // namespace evenstep
