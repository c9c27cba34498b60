#ifndef EVENSTEP_WORKER_TRAINER_COMM_TESTING_FAKE_NCCL_H_
#define EVENSTEP_WORKER_TRAINER_COMM_TESTING_FAKE_NCCL_H_

// NCCL for tests: ranks are threads, device memory is the host's, the sums are
// real. Each rank has a table of its own, which can be slow, fail when asked
// later, or hang. Thread-safe; the fake outlives its tables.

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "worker/trainer/comm/nccl_table.h"

namespace evenstep::trainer::testing {

inline constexpr int kForEver = -1;
inline constexpr int kNever = -1;

// Of one rank. "Polls" are questions that are answered with kInProgress.
struct NcclFaults {
  int init_polls = 0;  // kForEver: set-up does not end
  NcclResult init_result = NcclResult::kSuccess;
  NcclResult init_async = NcclResult::kSuccess;  // said when asked later
  bool init_hangs = false;                       // the call itself
  int enqueue_polls = 0;
  // The n-th operation, from 0 and warming included, gives this when
  // enqueued...
  int refuse_operation = kNever;
  NcclResult refusal = NcclResult::kInternalError;
  // ... or when asked later ...
  int fail_operation = kNever;
  NcclResult failure = NcclResult::kSystemError;
  // ... or its kernel never ends, or its call never returns.
  int stall_operation = kNever;
  int hang_operation = kNever;
  int fail_stream_at_operation = kNever;
  bool finalize_in_progress = false;  // for ever
  bool finalize_hangs = false;        // the call itself
  bool abort_hangs = false;           // the call itself
  // Whether waiting for a peer that has left is an asynchronous error.
  bool notices_peers = true;
};

class FakeNccl {
 public:
  // For one rank; `faults` may change between calls.
  std::unique_ptr<NcclTable> MakeTable(NcclFaults* faults);
  // Lets all calls that hang return, now and from now on.
  void Release() { released_.Notify(); }

  // Until an operation of any rank stalls or hangs.
  void AwaitStuckOperation() ABSL_LOCKS_EXCLUDED(mutex_);

  // Communicators that were neither destroyed nor aborted.
  int num_live() const ABSL_LOCKS_EXCLUDED(mutex_);
  int num_aborted() const { return num_aborted_; }
  int num_destroyed() const { return num_destroyed_; }
  int num_allocations() const { return num_allocations_; }  // not freed

 private:
  friend class FakeNcclTable;
  enum class Kind { kAllReduce, kReduce, kBroadcast, kSend, kReceive };
  struct Operation {
    Kind kind = Kind::kAllReduce;
    const void* send = nullptr;
    void* recv = nullptr;
    int64_t count = 0;
    NcclType type = NcclType::kUint8;
    NcclOp op = NcclOp::kSum;
    int peer = 0;  // or root
    bool stalls = false;
  };
  struct Comm;
  // The ranks of one id.
  struct Group {
    std::vector<Comm*> members;  // by rank; null: not there
    bool someone_left = false;
    std::map<std::pair<int, int>, std::deque<Operation>> sends;
    std::map<std::pair<int, int>, std::deque<Operation>> receives;
  };
  struct Comm {
    std::shared_ptr<Group> group;
    int rank = 0;
    std::deque<Operation> collectives;
    int num_enqueued = 0;
    int num_pending = 0;  // not done
    int polls_left = 0;
    bool finalizing = false;
    NcclResult error = NcclResult::kSuccess;
  };

  void HangIf(bool hangs) {
    if (hangs) released_.WaitForNotification();
  }
  void Enqueue(Comm* comm, Operation operation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does what all ranks concerned have enqueued.
  void Advance(Group& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AdvanceCollective(Group& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AdvanceMessages(Group& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(Comm* comm) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Notification released_;
  std::atomic<int> num_aborted_ = 0;
  std::atomic<int> num_destroyed_ = 0;
  std::atomic<int> num_allocations_ = 0;
  mutable absl::Mutex mutex_;
  bool is_stuck_ ABSL_GUARDED_BY(mutex_) = false;
  int num_ids_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::shared_ptr<Group>> groups_ ABSL_GUARDED_BY(mutex_);
  std::map<Comm*, std::unique_ptr<Comm>> comms_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evenstep::trainer::testing

#endif  // EVENSTEP_WORKER_TRAINER_COMM_TESTING_FAKE_NCCL_H_
