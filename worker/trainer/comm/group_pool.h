#ifndef EVENSTEP_WORKER_TRAINER_COMM_GROUP_POOL_H_
#define EVENSTEP_WORKER_TRAINER_COMM_GROUP_POOL_H_

// The groups of one rank that are not aligned blocks: opened and closed between
// steps by the lists of GroupSchedule, under keys with an instance number that
// is never used twice. Nothing is made inside a step; the pool goes with its
// generation. GroupTree owns one, and looks here for what it does not have
// itself. Prepare and Find are the main thread's; Abort may come from any.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/comm/communicator_factory.h"
#include "worker/trainer/comm/group_schedule.h"

namespace evenstep::trainer {

// Of one rank in one generation.
struct GroupCounters {
  int64_t live = 0;
  int64_t created = 0;
  absl::Duration creation_time;  // of all that were created, warming included
};

class GroupPool {
 public:
  // Enough for a tree of 64 ranks and ten groups beside it.
  static constexpr int kDefaultBudget = 16;

  struct Options {
    int64_t generation = 0;
    int rank = 0;
    int world = 1;
    int budget = kDefaultBudget;  // see GroupSchedule
  };
  // The factory outlives the pool.
  GroupPool(CommunicatorFactory* factory, const Options& options);

  // Between steps: makes this rank's groups of the next step's blocks ready.
  // Collective: every rank of the world calls it with the same blocks, and a
  // new group waits for its members. How many groups were opened, on whatever
  // ranks: the same number on all. Errors of GroupSchedule::Next (on all
  // ranks alike, before anything is opened) and of the factory; ABORTED.
  absl::StatusOr<int> Prepare(absl::Span<const RankBlock> blocks)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A group that is ready, or null; valid until the next Prepare.
  Communicator* Find(const RankBlock& block) const ABSL_LOCKS_EXCLUDED(mutex_);

  void Abort(absl::string_view why) ABSL_LOCKS_EXCLUDED(mutex_);

  GroupCounters counters() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<RankBlock> blocks() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status Open(const ScheduledGroup& group) ABSL_LOCKS_EXCLUDED(mutex_);
  void Close(const ScheduledGroup& group) ABSL_LOCKS_EXCLUDED(mutex_);

  CommunicatorFactory* const factory_;
  const Options options_;
  GroupSchedule schedule_;

  mutable absl::Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  GroupCounters counters_ ABSL_GUARDED_BY(mutex_);
  // Shared with an abort that is under way.
  std::map<RankBlock, std::shared_ptr<Communicator>> groups_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_GROUP_POOL_H_
