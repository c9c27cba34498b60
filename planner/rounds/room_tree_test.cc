// The tree of rooms against a plain search.

#include "planner/rounds/room_tree.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace evenstep::planner {
namespace {

int FindPlainly(const std::vector<Room>& rooms, const Room& need) {
  for (size_t slot = 0; slot < rooms.size(); ++slot) {
    if (rooms[slot].Holds(need)) return static_cast<int>(slot);
  }
  return -1;
}

TEST(RoomTreeTest, FindsTheFirstGroupThatAPlainSearchFinds) {
  std::mt19937_64 engine(7);
  auto below = [&](int64_t bound) {
    return static_cast<int64_t>(engine() % static_cast<uint64_t>(bound));
  };
  for (int max_slots : {1, 2, 5, 8, 31}) {
    RoomTree tree(max_slots);
    int found = 0;
    for (int fill = 0; fill < 20; ++fill) {
      std::vector<Room> rooms;
      for (int step = 0; step < 200; ++step) {
        const Room need = {below(20), below(20)};
        const int slot = FindPlainly(rooms, need);
        ASSERT_EQ(tree.FindFirst(need), slot);
        if (slot >= 0) {
          ++found;
          tree.Take(slot, need);
          rooms[slot].tokens -= need.tokens;
          rooms[slot].ns -= need.ns;
        } else if (tree.num_slots() < max_slots) {
          rooms.push_back({below(60), below(60)});
          const int last = static_cast<int>(rooms.size()) - 1;
          ASSERT_EQ(tree.Open(rooms.back()), last);
        }
      }
      tree.Clear();
      EXPECT_EQ(tree.FindFirst({0, 0}), -1);
    }
    EXPECT_GT(found, 20);
  }
}

// The only rooms with enough tokens, and with enough time, are different ones.
TEST(RoomTreeTest, LooksFurtherWhereTheMaximaComeFromDifferentGroups) {
  RoomTree tree(4);
  tree.Open({10, 1});
  tree.Open({1, 10});
  tree.Open({4, 4});
  EXPECT_EQ(tree.FindFirst({3, 3}), 2);
  EXPECT_EQ(tree.FindFirst({5, 5}), -1);
}

}  // namespace
}  // namespace evenstep::planner
