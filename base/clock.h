#ifndef EVENSTEP_BASE_CLOCK_H_
#define EVENSTEP_BASE_CLOCK_H_

// Time as a dependency, so that leases, back-off and time-outs are tested
// without sleeping. Thread-safe. Monotonic time measures; wall time is only for
// showing to people and for stamps in the store.

#include <memory>

#include "absl/base/thread_annotations.h"
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

}  // namespace evenstep

#endif  // EVENSTEP_BASE_CLOCK_H_
