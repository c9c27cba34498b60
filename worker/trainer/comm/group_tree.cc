#include "worker/trainer/comm/group_tree.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/in_process_communicator.h"

namespace evenstep::trainer {

absl::StatusOr<std::unique_ptr<GroupTree>> GroupTree::Build(
    CommunicatorFactory& factory, int64_t generation, int rank, int world,
    int budget) {
  if (world < 1 || rank < 0 || rank >= world) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " of a world of ", world));
  }
  const absl::Duration start = RealClock().Monotonic();
  std::unique_ptr<GroupTree> tree(
      new GroupTree(factory, {generation, rank, world, budget}));
  tree->groups_.push_back({{rank, 1}, MakeSelfCommunicator()});
  for (const RankBlock& block : TreeBlocks(rank, world)) {
    const std::string key =
        absl::StrCat("generation-", generation, "/group-", BlockText(block));
    auto communicator = factory.Create(key, block, rank);
    if (!communicator.ok()) {
      return absl::Status(
          communicator.status().code(),
          absl::StrCat("group ", BlockText(block), " of rank ", rank, ": ",
                       communicator.status().message()));
    }
    tree->groups_.push_back({block, *std::move(communicator)});
  }
  tree->creation_time_ = RealClock().Monotonic() - start;
  return tree;
}

absl::StatusOr<int> GroupTree::Prepare(absl::Span<const RankBlock> blocks) {
  return beside_.Prepare(blocks);
}

GroupCounters GroupTree::counters() const {
  GroupCounters counters = beside_.counters();
  counters.live += num_groups();
  counters.created += num_groups();
  counters.creation_time += creation_time_;
  return counters;
}

absl::StatusOr<Communicator*> GroupTree::GroupFor(int first_rank,
                                                  int degree) const {
  for (const Group& group : groups_) {
    if (group.block == RankBlock{first_rank, degree}) {
      return group.communicator.get();
    }
  }
  Communicator* const beside = beside_.Find({first_rank, degree});
  if (beside != nullptr) return beside;
  return absl::NotFoundError(absl::StrCat(
      "no group of ", degree, " ranks from rank ", first_rank, " for rank ",
      rank(), " of ", world_size(), " in generation ", generation(),
      "; its groups (first rank + degree) are ", Describe()));
}

void GroupTree::Abort(absl::string_view why) const {
  for (const Group& group : groups_) group.communicator->Abort(why);
  beside_.Abort(why);
}

std::string GroupTree::Describe() const {
  std::vector<RankBlock> blocks;
  for (const Group& group : groups_) blocks.push_back(group.block);
  for (const RankBlock& block : beside_.blocks()) blocks.push_back(block);
  return absl::StrJoin(blocks, ", ",
                       [](std::string* out, const RankBlock& block) {
                         absl::StrAppend(out, BlockText(block));
                       });
}

std::vector<RankBlock> TreeBlocks(int rank, int world) {
  std::vector<RankBlock> blocks;
  for (int degree = 2; degree <= world; degree *= 2) {
    const RankBlock block{rank / degree * degree, degree};
    if (block.first_rank + degree <= world) blocks.push_back(block);
  }
  const RankBlock whole{0, world};
  if (world > 1 && (blocks.empty() || blocks.back() != whole)) {
    blocks.push_back(whole);
  }
  return blocks;
}

std::string BlockText(const RankBlock& block) {
  return absl::StrCat(block.first_rank, "+", block.degree);
}

}  // namespace evenstep::trainer
