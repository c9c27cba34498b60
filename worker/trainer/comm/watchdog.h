#ifndef EVENSTEP_WORKER_TRAINER_COMM_WATCHDOG_H_
#define EVENSTEP_WORKER_TRAINER_COMM_WATCHDOG_H_

// For calls into foreign code that may never return (a call or an abort of NCCL
// can hang): if such a call is not over in time, the trainer process ends, and
// its agent starts another. One thread watches all calls of a rank, so that
// watching a collective costs no thread of its own; it looks 20 times a second.
// Thread-safe: calls may overlap.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace evenstep::trainer {

// Ends this process, in a trainer; tests put a note in its place.
using OnHang = std::function<void(absl::string_view why)>;

// One call; the texts live as long as it.
struct WatchedCall {
  absl::string_view what;
  absl::string_view group;
  absl::Duration limit;
};

class Watchdog {
 public:
  explicit Watchdog(OnHang end_process);
  // No call is under way.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Runs `body` on this thread. The watchdog's thread calls `end_process`,
  // once, if `body` has not returned within the limit.
  void Run(const WatchedCall& call, absl::FunctionRef<void()> body)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Watched {
    WatchedCall call;
    absl::Duration deadline;  // of the machine's monotonic clock
  };

  void Watch() ABSL_LOCKS_EXCLUDED(mutex_);
  // Why the process must end, or nothing. A call is named once.
  std::string NameOverdue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const OnHang end_process_;
  absl::Mutex mutex_;
  SteadyCondition ended_;  // over_
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int64_t, Watched> calls_ ABSL_GUARDED_BY(mutex_);  // by number
  std::thread thread_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_WATCHDOG_H_
