#include "worker/trainer/comm/group_pool.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/group_tree.h"

namespace evenstep::trainer {

GroupPool::GroupPool(CommunicatorFactory* factory, const Options& options)
    : factory_(factory),
      options_(options),
      schedule_(options.world, options.budget) {}

absl::StatusOr<int> GroupPool::Prepare(absl::Span<const RankBlock> blocks) {
  EVENSTEP_ASSIGN_OR_RETURN(const GroupLists lists, schedule_.Next(blocks));
  for (const ScheduledGroup& group : lists.close) {
    if (group.block.Contains(options_.rank)) Close(group);
  }
  for (const ScheduledGroup& group : lists.open) {
    if (!group.block.Contains(options_.rank)) continue;
    EVENSTEP_RETURN_IF_ERROR(Open(group));
  }
  absl::MutexLock lock(&mutex_);
  EVENSTEP_RETURN_IF_ERROR(aborted_);
  return static_cast<int>(lists.open.size());
}

absl::Status GroupPool::Open(const ScheduledGroup& group) {
  {
    absl::MutexLock lock(&mutex_);
    EVENSTEP_RETURN_IF_ERROR(aborted_);
  }
  const absl::Duration begin = RealClock().Monotonic();
  auto made = factory_->Create(
      absl::StrCat("generation-", options_.generation, "/group-",
                   BlockText(group.block), "/instance-", group.instance),
      group.block, options_.rank);
  if (!made.ok()) {
    return absl::Status(
        made.status().code(),
        absl::StrCat("group ", BlockText(group.block), ", instance ",
                     group.instance, ", of rank ", options_.rank, ": ",
                     made.status().message()));
  }
  std::shared_ptr<Communicator> communicator = *std::move(made);
  absl::Status aborted;
  {
    absl::MutexLock lock(&mutex_);
    ++counters_.created;
    ++counters_.live;
    counters_.creation_time += RealClock().Monotonic() - begin;
    groups_[group.block] = communicator;
    aborted = aborted_;
  }
  // An abort that came meanwhile has not seen this one.
  if (!aborted.ok()) communicator->Abort(aborted.message());
  return aborted;
}

void GroupPool::Close(const ScheduledGroup& group) {
  std::shared_ptr<Communicator> closed;  // ends outside the lock
  absl::MutexLock lock(&mutex_);
  const auto found = groups_.find(group.block);
  if (found == groups_.end()) return;
  closed = std::move(found->second);
  groups_.erase(found);
  --counters_.live;
}

Communicator* GroupPool::Find(const RankBlock& block) const {
  absl::MutexLock lock(&mutex_);
  const auto found = groups_.find(block);
  return found == groups_.end() ? nullptr : found->second.get();
}

void GroupPool::Abort(absl::string_view why) {
  std::vector<std::shared_ptr<Communicator>> groups;
  {
    absl::MutexLock lock(&mutex_);
    if (!aborted_.ok()) return;
    aborted_ = absl::AbortedError(absl::StrCat("collectives aborted: ", why));
    for (const auto& [block, group] : groups_) groups.push_back(group);
  }
  for (const auto& group : groups) group->Abort(why);
}

GroupCounters GroupPool::counters() const {
  absl::MutexLock lock(&mutex_);
  return counters_;
}

std::vector<RankBlock> GroupPool::blocks() const {
  absl::MutexLock lock(&mutex_);
  std::vector<RankBlock> blocks;
  for (const auto& [block, group] : groups_) blocks.push_back(block);
  return blocks;
}

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
