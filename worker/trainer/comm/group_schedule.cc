#include "worker/trainer/comm/group_schedule.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/tree_blocks.h"

namespace evenstep::trainer {

GroupSchedule::GroupSchedule(int world, int budget)
    : world_(world), budget_(budget) {
  for (int rank = 0; rank < world; ++rank) {
    num_groups_.push_back(static_cast<int>(TreeBlocks(rank, world).size()));
  }
}

absl::StatusOr<GroupLists> GroupSchedule::Next(
    absl::Span<const RankBlock> blocks) {
  EVENSTEP_ASSIGN_OR_RETURN(const std::vector<RankBlock> needed,
                            NeededBeside(blocks));
  EVENSTEP_RETURN_IF_ERROR(CheckBudget(needed));
  ++num_steps_;
  std::vector<RankBlock> missing;
  for (const RankBlock& block : needed) {
    const auto group = live_.find(block);
    if (group == live_.end()) {
      missing.push_back(block);
    } else {
      group->second.last_step = num_steps_;
    }
  }
  GroupLists lists;
  for (const RankBlock& block : missing) {
    MakeRoom(block, &lists);
    live_[block] = {++num_opened_, num_steps_};
    lists.open.push_back({block, num_opened_});
    for (int i = 0; i < block.degree; ++i) ++num_groups_[block.first_rank + i];
  }
  return lists;
}

bool GroupSchedule::IsInTree(const RankBlock& block) const {
  const std::vector<RankBlock> tree = TreeBlocks(block.first_rank, world_);
  return std::find(tree.begin(), tree.end(), block) != tree.end();
}

// Ascending, each once (a group is made by rank set, once).
absl::StatusOr<std::vector<RankBlock>> GroupSchedule::NeededBeside(
    absl::Span<const RankBlock> blocks) const {
  std::set<RankBlock> needed;
  for (const RankBlock& block : blocks) {
    if (block.first_rank < 0 || block.degree < 1 ||
        block.first_rank + block.degree > world_) {
      return absl::InvalidArgumentError(
          absl::StrCat("block of ", block.degree, " ranks from rank ",
                       block.first_rank, " in a world of ", world_));
    }
    if (block.degree > 1 && !IsInTree(block)) needed.insert(block);
  }
  return std::vector<RankBlock>(needed.begin(), needed.end());
}

absl::Status GroupSchedule::CheckBudget(
    absl::Span<const RankBlock> needed) const {
  for (int rank = 0; rank < world_; ++rank) {
    const auto in_tree = static_cast<int64_t>(TreeBlocks(rank, world_).size());
    const int64_t beside = std::count_if(
        needed.begin(), needed.end(),
        [rank](const RankBlock& block) { return block.Contains(rank); });
    if (in_tree + beside <= budget_ || beside == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, " needs ", beside, " groups beside the ", in_tree,
        " of its tree in one step; its budget is ", budget_));
  }
  return absl::OkStatus();
}

void GroupSchedule::MakeRoom(const RankBlock& block, GroupLists* lists) {
  for (int rank = block.first_rank; rank < block.first_rank + block.degree;
       ++rank) {
    while (num_groups_[rank] >= budget_) {
      auto oldest = live_.end();
      for (auto group = live_.begin(); group != live_.end(); ++group) {
        if (!group->first.Contains(rank)) continue;
        if (group->second.last_step == num_steps_) continue;
        if (oldest == live_.end() ||
            group->second.last_step < oldest->second.last_step) {
          oldest = group;
        }
      }
      if (oldest == live_.end()) break;  // CheckBudget rules it out
      Close(oldest, lists);
    }
  }
}

void GroupSchedule::Close(LiveGroups::iterator group, GroupLists* lists) {
  const RankBlock block = group->first;
  lists->close.push_back({block, group->second.instance});
  for (int i = 0; i < block.degree; ++i) --num_groups_[block.first_rank + i];
  live_.erase(group);
}

}  // namespace evenstep::trainer
