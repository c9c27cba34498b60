#ifndef EVENSTEP_WORKER_TRAINER_COMM_GROUP_SCHEDULE_H_
#define EVENSTEP_WORKER_TRAINER_COMM_GROUP_SCHEDULE_H_

// Which groups beside the tree (group_tree.h) a generation closes and opens
// before a step. A function of the plans so far alone: every rank holds the
// same plans in the same order, so every rank comes to the same lists without a
// word, and follows them in one global order, so no cycle of ranks that wait
// for each other can form. Used by GroupPool; no I/O, not thread-safe.

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/trainer/comm/communicator_factory.h"

namespace evenstep::trainer {

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

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_GROUP_SCHEDULE_H_
