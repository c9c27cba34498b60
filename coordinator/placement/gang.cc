#include "coordinator/placement/gang.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace evenstep::coordinator {
namespace {

int TotalFree(const std::vector<FreeNode>& nodes) {
  int total = 0;
  for (const FreeNode& node : nodes) total += node.free;
  return total;
}

int TotalSlots(const std::vector<FreeNode>& nodes) {
  int total = 0;
  for (const FreeNode& node : nodes) total += node.slots;
  return total;
}

// The node that holds `ranks` with the fewest slots left over.
FreeNode* BestFit(int ranks, std::vector<FreeNode>& nodes) {
  FreeNode* best = nullptr;
  for (FreeNode& node : nodes) {
    if (node.free < ranks) continue;
    if (best == nullptr || node.free < best->free) best = &node;
  }
  return best;
}

// The largest node that is wholly free and not larger than `ranks`.
FreeNode* LargestWhole(int ranks, std::vector<FreeNode>& nodes) {
  FreeNode* best = nullptr;
  for (FreeNode& node : nodes) {
    const bool whole = node.free == node.slots && node.free > 0;
    if (!whole || node.free > ranks) continue;
    if (best == nullptr || node.free > best->free) best = &node;
  }
  return best;
}

FreeNode* MostFree(std::vector<FreeNode>& nodes) {
  return &*std::max_element(
      nodes.begin(), nodes.end(),
      [](const FreeNode& a, const FreeNode& b) { return a.free < b.free; });
}

FreeNode* NextNode(int ranks, std::vector<FreeNode>& nodes) {
  if (FreeNode* node = BestFit(ranks, nodes)) return node;
  if (FreeNode* node = LargestWhole(ranks, nodes)) return node;
  return MostFree(nodes);
}

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

PendingReason Behind(const WaitingJob& first) {
  return {"BEHIND_PRIORITY", absl::StrCat("waits behind job '", first.job_id,
                                          "', which came earlier and needs ",
                                          first.ranks, " slots")};
}

}  // namespace

std::optional<std::vector<NodeShare>> PlaceGang(int ranks,
                                                std::vector<FreeNode> nodes) {
  if (ranks < 1 || TotalFree(nodes) < ranks) return std::nullopt;
  std::sort(
      nodes.begin(), nodes.end(),
      [](const FreeNode& a, const FreeNode& b) { return a.name < b.name; });
  std::vector<NodeShare> shares;
  for (int placed = 0; placed < ranks;) {
    FreeNode* const node = NextNode(ranks - placed, nodes);
    const int taken = std::min(node->free, ranks - placed);
    shares.push_back({node->name, placed, taken});
    node->free = 0;  // ranks of a node stay together: it is used once
    placed += taken;
  }
  return shares;
}

QueueVerdict JudgeQueue(const std::vector<WaitingJob>& queue,
                        const std::vector<FreeNode>& nodes) {
  QueueVerdict verdict;
  const int slots = TotalSlots(nodes);
  const WaitingJob* blocking = nullptr;
  for (int i = 0; i < static_cast<int>(queue.size()); ++i) {
    const WaitingJob& job = queue[i];
    if (job.ranks > slots) {
      verdict.pending.push_back(NoCapacity(job, nodes));
      continue;
    }
    if (blocking != nullptr) {
      verdict.pending.push_back(Behind(*blocking));
      continue;
    }
    blocking = &job;
    if (auto shares = PlaceGang(job.ranks, nodes)) {
      verdict.start = {i, *std::move(shares)};
      verdict.pending.emplace_back();
    } else {
      verdict.pending.push_back(NoCapacity(job, nodes));
    }
  }
  return verdict;
}

}  // namespace evenstep::coordinator
