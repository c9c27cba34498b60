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

namespace evenstep::trainer {

// Which groups beside the tree (group_tree.h) a generation closes and opens
// before a step. A function of the plans so far alone: every rank holds the
// same plans in the same order, so every rank comes to the same lists without a
// word, and follows them in one global order, so no cycle of ranks that wait
// for each other can form. Used by GroupPool; no I/O, not thread-safe.

struct ScheduledGroup {
  RankBlock block;
  int64_t instance = 0;  // never repeats within a generation
  friend bool operator==(const ScheduledGroup&,
                         const ScheduledGroup&) = default;
};

struct GroupLists {
  std::vector<ScheduledGroup> close;  // first, in this order
  std::vector<ScheduledGroup> open;   // ascending by block
};

class GroupSchedule {
 public:
  // `budget`: groups of two and more ranks that a rank may be in at a time, its
  // tree's included (each costs memory: about 0.5 GB of an A100).
  GroupSchedule(int world, int budget);

  // The lists for a step that runs on `blocks`, which may repeat. A group is
  // kept until its place is needed; the one that was not used for longest goes.
  // INVALID_ARGUMENT: a block outside the world, or the step needs more groups
  // on one rank than the budget. Both leave things as they are.
  absl::StatusOr<GroupLists> Next(absl::Span<const RankBlock> blocks);

  int64_t num_live() const { return static_cast<int64_t>(live_.size()); }

 private:
  struct Live {
    int64_t instance = 0;
    int64_t last_step = 0;
  };
  using LiveGroups = std::map<RankBlock, Live>;

  bool IsInTree(const RankBlock& block) const;
  absl::StatusOr<std::vector<RankBlock>> NeededBeside(
      absl::Span<const RankBlock> blocks) const;
  absl::Status CheckBudget(absl::Span<const RankBlock> needed) const;
  // Closes what keeps a rank of `block` at the budget.
  void MakeRoom(const RankBlock& block, GroupLists* lists);
  void Close(LiveGroups::iterator group, GroupLists* lists);

  const int world_;
  const int budget_;
  int64_t num_steps_ = 0;
  int64_t num_opened_ = 0;
  LiveGroups live_;
  std::vector<int> num_groups_;  // by rank, the tree's included
};

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
