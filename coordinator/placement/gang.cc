#include "coordinator/placement/gang.h"

#include <algorithm>
#include <utility>

namespace evenstep::coordinator {
namespace {

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

}  // namespace

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

}  // namespace evenstep::coordinator
