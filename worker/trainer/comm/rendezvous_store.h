#ifndef EVENSTEP_WORKER_TRAINER_COMM_RENDEZVOUS_STORE_H_
#define EVENSTEP_WORKER_TRAINER_COMM_RENDEZVOUS_STORE_H_

// Where ranks of a generation leave their addresses for each other. In a job
// the keys travel through agent and coordinator; the scope (job, generation) is
// theirs, so an old generation's key is never read. Thread-safe.

#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace evenstep::trainer {

class RendezvousStore {
 public:
  virtual ~RendezvousStore() = default;
  // ALREADY_EXISTS: another value stands under the key.
  virtual absl::Status Set(const std::string& key,
                           const std::string& value) = 0;
  // Waits up to `wait` for the key. DEADLINE_EXCEEDED: not in time; ABORTED:
  // the generation is over.
  virtual absl::StatusOr<std::string> Get(const std::string& key,
                                          absl::Duration wait) = 0;
};

// Within one process: of a profile's ranks and of tests.
class MemoryRendezvousStore : public RendezvousStore {
 public:
  absl::Status Set(const std::string& key, const std::string& value) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::string> Get(const std::string& key,
                                  absl::Duration wait) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Every Get that waits or comes later fails with `why`, which is an error;
  // the first one stays.
  void End(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  // OK before End.
  absl::Status end() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  mutable absl::Mutex mutex_;
  SteadyCondition changed_;  // a key, or the end
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_RENDEZVOUS_STORE_H_
