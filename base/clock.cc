#include "base/clock.h"

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

}  // namespace evenstep
