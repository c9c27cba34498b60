#ifndef EVENSTEP_WORKER_TRAINER_COMM_GROUP_TREE_H_
#define EVENSTEP_WORKER_TRAINER_COMM_GROUP_TREE_H_

// All groups that one rank may need in a generation: every aligned block of
// 2, 4, 8... ranks that contains it and ends within the world, and the world
// itself. At most log2(world) + 1, so all are built and warmed when the
// generation begins. Plans with other blocks have them opened between steps, in
// a pool beside the tree (group_pool.h). Nothing is created inside a step, and
// destroying the tree leaves none of them reachable. Owned by the trainer's
// main thread; Abort may come from any thread while the tree lives.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/comm/communicator_factory.h"
#include "worker/trainer/comm/group_pool.h"

namespace evenstep::trainer {

// The aligned blocks of a world (see group_tree.h). Pure.

// Blocks of degree 2 and more that contain `rank`, smallest first; the world is
// the last one if world > 1. This order is the same for all ranks: no cycle of
// ranks that wait for each other can form.
std::vector<RankBlock> TreeBlocks(int rank, int world);

// "4+2": first rank and degree.
std::string BlockText(const RankBlock& block);

class GroupTree {
 public:
  // Collective over the whole world. Errors of the factory, which outlives the
  // tree, are passed on with the block; INVALID_ARGUMENT: rank outside the
  // world. `budget`: groups that a rank may be in at a time.
  static absl::StatusOr<std::unique_ptr<GroupTree>> Build(
      CommunicatorFactory& factory, int64_t generation, int rank, int world,
      int budget = GroupPool::kDefaultBudget);

  // Between steps: opens what the next step's blocks need beside the tree.
  // Collective over the world, see GroupPool::Prepare, whose result it has;
  // with aligned blocks it does nothing.
  absl::StatusOr<int> Prepare(absl::Span<const RankBlock> blocks);

  // The communicator of [first_rank, first_rank + degree); owned by the tree.
  // Degree 1 is a group of this rank alone. One that is not aligned is valid
  // until the next Prepare. NOT_FOUND: no such group, or this
  // rank is not in it; says which groups there are.
  absl::StatusOr<Communicator*> GroupFor(int first_rank, int degree) const;
  // All ranks of the job.
  Communicator& world() const { return *groups_.back().communicator; }

  // Aborts every group.
  void Abort(absl::string_view why) const;

  int64_t generation() const { return place_.generation; }
  int rank() const { return place_.rank; }
  int world_size() const { return place_.world; }
  // Of two and more ranks, those beside the tree included.
  GroupCounters counters() const;
  // Groups of two and more ranks in the tree.
  int num_groups() const { return static_cast<int>(groups_.size()) - 1; }
  // Building and warming all of them.
  absl::Duration creation_time() const { return creation_time_; }

 private:
  struct Group {
    RankBlock block;
    std::unique_ptr<Communicator> communicator;
  };

  GroupTree(CommunicatorFactory& factory, const GroupPool::Options& place)
      : place_(place), beside_(&factory, place) {}
  std::string Describe() const;

  const GroupPool::Options place_;
  std::vector<Group> groups_;  // the rank alone, then TreeBlocks
  absl::Duration creation_time_;
  mutable GroupPool beside_;  // locks itself
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_GROUP_TREE_H_
