#ifndef EVENSTEP_PLANNER_ROUNDS_ROOM_TREE_H_
#define EVENSTEP_PLANNER_ROUNDS_ROOM_TREE_H_

// The rooms that a row of groups has left, in tokens and in time, so that the
// first group with enough of both is found without looking at all of them: a
// maximum tree over each. Used by RoundFiller. Not thread-safe.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace evenstep::planner {

struct Room {
  int64_t tokens = -1;
  int64_t ns = -1;

  bool Holds(const Room& need) const {
    return tokens >= need.tokens && ns >= need.ns;
  }
};

class RoomTree {
 public:
  explicit RoomTree(int max_slots);

  int num_slots() const { return num_slots_; }
  const Room& at(int slot) const { return nodes_[num_leaves_ + slot]; }
  // The new group's slot: the next number.
  int Open(const Room& room);
  // The first slot that holds `need`; -1 if none does.
  int FindFirst(const Room& need) const;
  void Take(int slot, const Room& need);
  void Clear();

 private:
  void Update(int leaf);

  int num_leaves_ = 1;
  int num_slots_ = 0;
  std::vector<Room> nodes_;  // heap order: children of i are 2i and 2i + 1
};

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_ROUNDS_ROOM_TREE_H_
