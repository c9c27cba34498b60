#ifndef EVENSTEP_BASE_BYTE_BUDGET_H_
#define EVENSTEP_BASE_BYTE_BUDGET_H_

// Bounds what waits in a queue by its bytes: whoever puts something in takes
// its size from the budget, whoever takes it out gives the size back. One thing
// that is larger than the whole budget may wait alone. Thread-safe.

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace evenstep {

class ByteBudget {
 public:
  explicit ByteBudget(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // False: there is no room, and nothing was taken.
  bool TryTake(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (!HasRoom(bytes)) return false;
    taken_ += bytes;
    return true;
  }

  // Waits for room. Whoever gives back must not wait for the caller.
  void Take(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto room = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return HasRoom(bytes);
    };
    mutex_.Await(absl::Condition(&room));
    taken_ += bytes;
  }

  void Give(int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    taken_ -= bytes;
  }

  int64_t max_bytes() const { return max_bytes_; }

 private:
  bool HasRoom(int64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return taken_ == 0 || taken_ + bytes <= max_bytes_;
  }

  const int64_t max_bytes_;
  absl::Mutex mutex_;
  int64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace evenstep

#endif  // EVENSTEP_BASE_BYTE_BUDGET_H_
