#ifndef EVENSTEP_WORKER_TRAINER_COMM_NCCL_SESSION_H_
#define EVENSTEP_WORKER_TRAINER_COMM_NCCL_SESSION_H_

// One NCCL communicator from set-up to its end: the state machine that
// nccl_communicator.h describes. Used by nccl_communicator.cc only. One thread
// runs collectives; Abort may come from any.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/comm/nccl_communicator.h"
#include "worker/trainer/comm/watchdog.h"

namespace evenstep::trainer {

// Milliseconds; shared by a factory and its groups, so that it can change.
using SharedTimeoutMs = std::atomic<int64_t>;

class NcclSession {
 public:
  struct Parts {
    NcclTable* table;
    NcclOptions options;
    std::shared_ptr<const SharedTimeoutMs> timeout_ms;
    std::shared_ptr<Watchdog> watchdog;
    std::string group;  // for messages
    int rank = 0;
    int size = 1;
  };

  // Collective over the group, under the options' time-out.
  static absl::StatusOr<std::unique_ptr<NcclSession>> Open(Parts parts,
                                                           const NcclId& id);
  // Closes a group that is whole; aborts if closing does not come to an end.
  ~NcclSession();

  // Enqueues work for the stream; gives the worst result of its calls.
  using Enqueue = std::function<NcclResult(const NcclPlace& place)>;
  // Waits for the stream, enqueues, and waits until it is done. An error breaks
  // the session.
  absl::Status Run(CollectiveKind kind, const Enqueue& enqueue)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Abort(absl::string_view why) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status state() const ABSL_LOCKS_EXCLUDED(mutex_);

  int rank() const { return parts_.rank; }
  int size() const { return parts_.size; }
  NcclTable& table() const { return *parts_.table; }
  int64_t collective_ns() const { return collective_ns_; }

 private:
  explicit NcclSession(Parts parts) : parts_(std::move(parts)) {}

  // What a poll asks: not over, over, or an error.
  using Ask = std::function<absl::StatusOr<bool>()>;
  absl::Status Poll(absl::string_view what, absl::Duration limit,
                    const Ask& over);
  absl::StatusOr<bool> Enqueued(absl::string_view what);
  absl::StatusOr<bool> StreamDone(absl::string_view what);
  absl::Status Collective(absl::string_view what, const Enqueue& enqueue);
  absl::Status SetUp(const NcclId& id);
  // Ends the communicator in NCCL, once, whatever thread asks.
  void AbortInNccl() ABSL_LOCKS_EXCLUDED(mutex_);
  bool Close();
  absl::Status Break(absl::Status error) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status NcclError(NcclResult result, absl::string_view what) const;
  absl::Duration collective_limit() const {
    return absl::Milliseconds(parts_.timeout_ms->load());
  }
  void Watched(absl::string_view what, absl::Duration limit,
               absl::FunctionRef<void()> body) const {
    parts_.watchdog->Run({what, parts_.group, limit}, body);
  }

  const Parts parts_;
  int64_t num_run_ = 0;
  std::atomic<int64_t> collective_ns_ = 0;
  NcclComm comm_ = nullptr;  // written before other threads, and at the end

  mutable absl::Mutex mutex_;
  absl::Status state_ ABSL_GUARDED_BY(mutex_);
  bool in_call_ ABSL_GUARDED_BY(mutex_) = false;
  bool abort_begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool abort_done_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_NCCL_SESSION_H_
