#include "planner/rounds/room_tree.h"

#include <algorithm>

namespace evenstep::planner {

RoomTree::RoomTree(int max_slots) {
  while (num_leaves_ < max_slots) num_leaves_ *= 2;
  nodes_.resize(2 * num_leaves_);
}

int RoomTree::Open(const Room& room) {
  const int slot = num_slots_++;
  nodes_[num_leaves_ + slot] = room;
  Update(num_leaves_ + slot);
  return slot;
}

int RoomTree::FindFirst(const Room& need) const {
  int node = 1;
  if (!nodes_[node].Holds(need)) return -1;
  while (node < num_leaves_) {
    if (nodes_[2 * node].Holds(need)) {
      node = 2 * node;
      continue;
    }
    // The maxima of a node may come from different groups: where neither child
    // holds, go back to the next subtree on the right that does.
    node = 2 * node + 1;
    while (!nodes_[node].Holds(need)) {
      while (node % 2 == 1) node /= 2;
      if (node == 0) return -1;
      ++node;
    }
  }
  return node - num_leaves_;
}

void RoomTree::Take(int slot, const Room& need) {
  Room& room = nodes_[num_leaves_ + slot];
  room.tokens -= need.tokens;
  room.ns -= need.ns;
  Update(num_leaves_ + slot);
}

void RoomTree::Clear() {
  for (int slot = 0; slot < num_slots_; ++slot) {
    for (int node = num_leaves_ + slot; node >= 1; node /= 2) {
      nodes_[node] = Room();
    }
  }
  num_slots_ = 0;
}

void RoomTree::Update(int leaf) {
  for (int node = leaf / 2; node >= 1; node /= 2) {
    const Room& left = nodes_[2 * node];
    const Room& right = nodes_[2 * node + 1];
    const Room most = {std::max(left.tokens, right.tokens),
                       std::max(left.ns, right.ns)};
    Room& now = nodes_[node];
    if (most.tokens == now.tokens && most.ns == now.ns) return;
    now = most;
  }
}

}  // namespace evenstep::planner
