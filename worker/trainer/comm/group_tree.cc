#include "worker/trainer/comm/group_tree.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/in_process_communicator.h"

namespace evenstep::trainer {
namespace {

std::string BlockText(const RankBlock& block) {
  return absl::StrCat(block.first_rank, "+", block.degree);
}

}  // namespace

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

absl::StatusOr<std::unique_ptr<GroupTree>> GroupTree::Build(
    CommunicatorFactory& factory, int64_t generation, int rank, int world) {
  if (world < 1 || rank < 0 || rank >= world) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " of a world of ", world));
  }
  const absl::Time start = absl::Now();
  std::unique_ptr<GroupTree> tree(new GroupTree(generation, rank, world));
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
  tree->creation_time_ = absl::Now() - start;
  return tree;
}

absl::StatusOr<Communicator*> GroupTree::GroupFor(int first_rank,
                                                  int degree) const {
  for (const Group& group : groups_) {
    if (group.block == RankBlock{first_rank, degree}) {
      return group.communicator.get();
    }
  }
  return absl::NotFoundError(absl::StrCat(
      "no group of ", degree, " ranks from rank ", first_rank, " for rank ",
      rank_, " of ", world_, " in generation ", generation_,
      "; its groups (first rank + degree) are ", Describe()));
}

void GroupTree::Abort(absl::string_view why) const {
  for (const Group& group : groups_) group.communicator->Abort(why);
}

std::string GroupTree::Describe() const {
  return absl::StrJoin(groups_, ", ", [](std::string* out, const Group& group) {
    absl::StrAppend(out, BlockText(group.block));
  });
}

}  // namespace evenstep::trainer
