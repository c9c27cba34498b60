#include "coordinator/placement/gang.h"

#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace evenstep::coordinator {
namespace {

using ::testing::ElementsAre;

TEST(PlaceGangTest, HalfOfAGangIsNeverPlaced) {
  EXPECT_EQ(PlaceGang(3, {{"a", 1, 1}, {"b", 1, 1}}), std::nullopt);
  EXPECT_EQ(PlaceGang(3, {{"a", 4, 2}}), std::nullopt);
  EXPECT_EQ(PlaceGang(1, {}), std::nullopt);
}

TEST(PlaceGangTest, OneNodeWithTheLeastLeftOverIsBest) {
  EXPECT_THAT(*PlaceGang(2, {{"a", 8, 8}, {"b", 4, 3}, {"c", 4, 2}}),
              ElementsAre(NodeShare{"c", 0, 2}));
}

TEST(PlaceGangTest, WholeNodesComeBeforeParts) {
  EXPECT_THAT(
      *PlaceGang(7, {{"a", 8, 3}, {"b", 4, 4}, {"c", 2, 2}, {"d", 8, 1}}),
      ElementsAre(NodeShare{"b", 0, 4}, NodeShare{"a", 4, 3}));
}

TEST(PlaceGangTest, TheRestGoesWhereItFitsBest) {
  EXPECT_THAT(*PlaceGang(6, {{"a", 4, 4}, {"b", 8, 3}, {"c", 8, 2}}),
              ElementsAre(NodeShare{"a", 0, 4}, NodeShare{"c", 4, 2}));
}

TEST(PlaceGangTest, TheOrderOfNodesDoesNotMatter) {
  EXPECT_EQ(PlaceGang(2, {{"b", 1, 1}, {"a", 1, 1}}),
            PlaceGang(2, {{"a", 1, 1}, {"b", 1, 1}}));
}

TEST(PlaceGangTest, EveryPlacementIsWholeAndWithinTheFreeSlots) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<FreeNode> nodes(1 + random() % 6);
    std::map<std::string, int> free;
    int total = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const int slots = 1 + random() % 8;
      nodes[i] = {absl::StrCat("n", i), slots,
                  static_cast<int>(random() % (slots + 1))};
      free[nodes[i].name] = nodes[i].free;
      total += nodes[i].free;
    }
    const int ranks = 1 + random() % 20;
    const auto shares = PlaceGang(ranks, nodes);
    ASSERT_EQ(shares.has_value(), ranks <= total);
    if (!shares) continue;
    int next = 0;
    for (const NodeShare& share : *shares) {
      ASSERT_EQ(share.first_rank, next);
      ASSERT_GE(share.num_ranks, 1);
      ASSERT_LE(share.num_ranks, free[share.node]);
      free[share.node] = 0;  // and never the same node twice
      next += share.num_ranks;
    }
    ASSERT_EQ(next, ranks);
  }
}

}  // namespace
}  // namespace evenstep::coordinator
