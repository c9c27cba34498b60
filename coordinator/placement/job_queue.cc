#include "coordinator/placement/job_queue.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace evenstep::coordinator {
namespace {

PendingReason NoCapacity(const WaitingJob& job,
                         const std::vector<FreeNode>& nodes) {
  const int free = TotalFree(nodes);
  const int slots = TotalSlots(nodes);
  const std::string hint =
      job.ranks > slots
          ? absl::StrCat("add ", job.ranks - slots, " slots")
          : absl::StrCat("starts when ", job.ranks - free, " more are free");
  return {"NO_CAPACITY",
          absl::StrCat("needs ", job.ranks, " slots at once; ", free, " of ",
                       slots, " are free on ", nodes.size(), " nodes; ", hint)};
}

PendingReason Behind(const WaitingJob& next) {
  return {"BEHIND_PRIORITY", absl::StrCat("waits behind job '", next.job_id,
                                          "', which came earlier and needs ",
                                          next.ranks, " slots")};
}

}  // namespace

void JobQueue::Add(const WaitingJob& job) {
  if (!by_ranks_[job.ranks].emplace(job.arrival, job).second) return;
  // Nearly always at the end.
  const auto place =
      !arrivals_.empty() && arrivals_.back() < job.arrival
          ? arrivals_.end()
          : std::lower_bound(arrivals_.begin(), arrivals_.end(), job.arrival);
  arrivals_.insert(place, job.arrival);
}

void JobQueue::Remove(const WaitingJob& job) {
  const auto same = by_ranks_.find(job.ranks);
  if (same == by_ranks_.end() || same->second.erase(job.arrival) == 0) return;
  if (same->second.empty()) by_ranks_.erase(same);
  arrivals_.erase(
      std::lower_bound(arrivals_.begin(), arrivals_.end(), job.arrival));
}

int JobQueue::PositionOf(int64_t arrival) const {
  const auto place = std::lower_bound(
      arrivals_.begin(), arrivals_.end(), arrival,
      [this](int64_t a, int64_t b) { return ++num_visited_, a < b; });
  if (place == arrivals_.end() || *place != arrival) return 0;
  return static_cast<int>(place - arrivals_.begin()) + 1;
}

const WaitingJob* JobQueue::Next(int slots) const {
  const WaitingJob* next = nullptr;
  for (const auto& [ranks, jobs] : by_ranks_) {
    if (ranks > slots) break;
    ++num_visited_;
    const WaitingJob& first = jobs.begin()->second;
    if (next == nullptr || first.arrival < next->arrival) next = &first;
  }
  return next;
}

PendingReason WhyWaiting(const WaitingJob& job, const JobQueue& queue,
                         const std::vector<FreeNode>& nodes) {
  const int slots = TotalSlots(nodes);
  if (job.ranks > slots) return NoCapacity(job, nodes);
  const WaitingJob* const next = queue.Next(slots);
  if (next != nullptr && next->arrival < job.arrival) return Behind(*next);
  if (PlaceGang(job.ranks, nodes)) return {};
  return NoCapacity(job, nodes);
}

}  // namespace evenstep::coordinator
