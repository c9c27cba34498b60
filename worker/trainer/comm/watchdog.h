#ifndef EVENSTEP_WORKER_TRAINER_COMM_WATCHDOG_H_
#define EVENSTEP_WORKER_TRAINER_COMM_WATCHDOG_H_

// For calls into foreign code that may never return (an abort of NCCL can
// hang): if such a call is not over in time, the trainer process ends, and its
// agent starts another. Thread-safe: no state is shared between calls.

#include <functional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace evenstep::trainer {

// Ends this process, in a trainer; tests put a note in its place.
using OnHang = std::function<void(absl::string_view why)>;

struct WatchLimits {
  absl::Duration limit;
  OnHang end_process;
};

// Runs `body` on this thread. A thread of its own calls `end_process`, once,
// if `body` has not returned within the limit.
void RunWatched(const WatchLimits& limits, absl::string_view what,
                const std::function<void()>& body);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_WATCHDOG_H_
