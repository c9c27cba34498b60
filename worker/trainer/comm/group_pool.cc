#include "worker/trainer/comm/group_pool.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/tree_blocks.h"

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

}  // namespace evenstep::trainer
