#ifndef EVENSTEP_WORKER_TRAINER_COMM_FLIGHT_RECORDER_H_
#define EVENSTEP_WORKER_TRAINER_COMM_FLIGHT_RECORDER_H_

// The last collectives of one rank, over all its groups, so that a hang says
// who waited in what: numbers count within a group, so the logs of its ranks
// can be laid side by side. Writing costs a lock and no allocation. It is
// dumped to the log when a collective fails, someone aborts, or the process is
// to end because a call does not return. Thread-safe.
//
//   auto factory = MakeRecordingFactory(std::move(gloo), &recorder);

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/comm/communicator_factory.h"
#include "worker/trainer/comm/watchdog.h"

namespace evenstep::trainer {

struct CollectiveEntry {
  CollectiveKind kind = CollectiveKind::kBarrier;
  std::shared_ptr<const std::string> group;         // its key
  int64_t bytes = 0;                                // Collective::Bytes
  int64_t number = 0;                               // in its group, from 1
  absl::Duration begun = {};                        // of the clock
  absl::Duration ended = absl::InfiniteDuration();  // not yet
  absl::StatusCode outcome = absl::StatusCode::kOk;
};

class FlightRecorder {
 public:
  explicit FlightRecorder(int capacity = 32, const Clock& clock = RealClock());

  // Notes the entry, begun now, and gives the ticket for End.
  int64_t Begin(CollectiveEntry entry) ABSL_LOCKS_EXCLUDED(mutex_);
  void End(int64_t ticket, absl::StatusCode outcome)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Oldest first.
  std::vector<CollectiveEntry> Entries() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Writes them to the log, unless none has begun since the last dump: one
  // failure reaches many groups.
  void Dump(absl::string_view why) ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t num_dumps() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::vector<CollectiveEntry> EntriesLocked() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t capacity_;
  const Clock& clock_;
  mutable absl::Mutex mutex_;
  int64_t num_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_begun_at_dump_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t num_dumps_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<CollectiveEntry> entries_ ABSL_GUARDED_BY(mutex_);
};

// "all-to-all 17 of generation-3/group-0+2, 4096 bytes: waiting for 1.5s", as
// seen at `now`.
std::string DescribeEntry(const CollectiveEntry& entry, absl::Duration now);

// Dumps `recorder`, which outlives it, and then ends the process: a collective
// that hangs never comes to where it would be dumped.
OnHang DumpThenEnd(FlightRecorder* recorder, OnHang end_process);

// Groups whose calls are noted in `recorder`, which outlives factory and
// groups.
std::unique_ptr<CommunicatorFactory> MakeRecordingFactory(
    std::unique_ptr<CommunicatorFactory> inner, FlightRecorder* recorder);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_FLIGHT_RECORDER_H_
