#ifndef EVENSTEP_WORKER_TRAINER_COMM_IN_PROCESS_COMMUNICATOR_H_
#define EVENSTEP_WORKER_TRAINER_COMM_IN_PROCESS_COMMUNICATOR_H_

// Communicators between threads of one process: each rank is a thread. For
// tests, and for a world of one. The last rank to arrive does the whole
// exchange, in rank order, so results do not depend on scheduling. Ranks that
// call different collectives, or whose counts disagree, all get
// FAILED_PRECONDITION that names both calls.
//
// The hub is shared by all ranks of the world and outlives its factories;
// groups live as long as one of their communicators.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/trainer/comm/communicator_factory.h"

namespace evenstep::trainer {

class InProcessGroup;

class InProcessHub {
 public:
  // `timeout` bounds how long a rank waits for its peers in one collective.
  explicit InProcessHub(absl::Duration timeout = absl::Seconds(60));
  ~InProcessHub();

  // For one rank; thread-safe, so that ranks may share one.
  std::unique_ptr<CommunicatorFactory> MakeFactory();

  // Groups that one of their ranks still holds.
  int64_t num_groups() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class InProcessFactory;
  std::shared_ptr<InProcessGroup> FindOrAdd(const std::string& key, int size)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void SweepClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  static constexpr size_t kFirstSweepSize = 64;

  const absl::Duration timeout_;
  mutable absl::Mutex mutex_;
  size_t sweep_size_ ABSL_GUARDED_BY(mutex_) = kFirstSweepSize;
  std::map<std::string, std::weak_ptr<InProcessGroup>> groups_
      ABSL_GUARDED_BY(mutex_);
};

// A group of one: every collective is a copy to itself.
std::unique_ptr<Communicator> MakeSelfCommunicator();

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_IN_PROCESS_COMMUNICATOR_H_
