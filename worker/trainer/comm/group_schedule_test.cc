#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/group_pool.h"
#include "worker/trainer/comm/testing/random_groups.h"

namespace evenstep::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

GroupLists MustNext(GroupSchedule& schedule, std::vector<RankBlock> blocks) {
  auto lists = schedule.Next(blocks);
  EXPECT_TRUE(lists.ok()) << lists.status();
  return lists.ok() ? *lists : GroupLists{};
}

TEST(GroupScheduleTest, AlignedBlocksAndSingleRanksNeedNothing) {
  GroupSchedule schedule(6, 16);
  const GroupLists lists =
      MustNext(schedule, {{0, 4}, {4, 2}, {0, 6}, {3, 1}, {0, 2}});
  EXPECT_THAT(lists.open, IsEmpty());
  EXPECT_EQ(schedule.num_live(), 0);
}

// Made by rank set, once, and kept for later steps.
TEST(GroupScheduleTest, AGroupIsOpenedOnceHoweverOftenItIsUsed) {
  GroupSchedule schedule(6, 16);
  EXPECT_THAT(MustNext(schedule, {{1, 3}, {1, 3}, {0, 6}, {1, 3}}).open,
              ElementsAre(ScheduledGroup{{1, 3}, 1}));
  EXPECT_THAT(MustNext(schedule, {{1, 3}}).open, IsEmpty());
}

TEST(GroupScheduleTest, OpensInOneGlobalOrder) {
  GroupSchedule schedule(8, 16);
  EXPECT_THAT(MustNext(schedule, {{4, 3}, {1, 5}, {1, 2}}).open,
              ElementsAre(ScheduledGroup{{1, 2}, 1}, ScheduledGroup{{1, 5}, 2},
                          ScheduledGroup{{4, 3}, 3}));
}

// Three groups of the tree and two beside it.
TEST(GroupScheduleTest, TheOldestGroupGoesWhenTheBudgetIsSpent) {
  GroupSchedule schedule(8, 5);
  MustNext(schedule, {{1, 2}});
  MustNext(schedule, {{1, 3}});
  MustNext(schedule, {{1, 2}});  // used again: {1, 3} is the oldest
  const GroupLists lists = MustNext(schedule, {{2, 3}});
  EXPECT_THAT(lists.close, ElementsAre(ScheduledGroup{{1, 3}, 2}));
  EXPECT_THAT(lists.open, ElementsAre(ScheduledGroup{{2, 3}, 3}));
}

TEST(GroupScheduleTest, AGroupThatIsOpenedAgainHasAnInstanceOfItsOwn) {
  GroupSchedule schedule(4, 3);
  MustNext(schedule, {{1, 2}});
  EXPECT_THAT(MustNext(schedule, {{1, 3}}).close,
              ElementsAre(ScheduledGroup{{1, 2}, 1}));
  EXPECT_THAT(MustNext(schedule, {{1, 2}}).open,
              ElementsAre(ScheduledGroup{{1, 2}, 3}));
}

TEST(GroupScheduleTest, AStepBeyondTheBudgetIsRefusedWithTheNumbers) {
  GroupSchedule schedule(8, 4);
  MustNext(schedule, {{3, 2}});
  const absl::Status status =
      schedule.Next(std::vector<RankBlock>{{0, 3}, {1, 3}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 1 needs 2 groups beside the 3 of its tree in one "
                        "step; its budget is 4"));
  EXPECT_EQ(schedule.num_live(), 1) << "nothing was closed or opened";
}

TEST(GroupScheduleTest, ATreeAboveTheBudgetStaysWhereNothingElseIsAsked) {
  GroupSchedule schedule(64, 4);
  EXPECT_THAT(MustNext(schedule, {{0, 64}, {0, 16}}).open, IsEmpty());
}

TEST(GroupScheduleTest, ABlockOutsideTheWorldIsRefused) {
  GroupSchedule schedule(4, 8);
  for (const RankBlock& block :
       {RankBlock{2, 3}, RankBlock{-1, 2}, RankBlock{0, 0}}) {
    EXPECT_EQ(schedule.Next(std::vector<RankBlock>{block}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

// Over random plans: no rank is ever above its budget, nothing that a
// step needs is closed, and an instance never repeats.
TEST(GroupScheduleTest, RandomPlansKeepTheBudget) {
  for (int world = 2; world <= 9; ++world) {
    const testing::RandomGroups setup{.world = world, .budget = 6};
    std::mt19937 random(world);
    GroupSchedule schedule(world, setup.budget);
    std::map<RankBlock, int64_t> live;
    int64_t last_instance = 0;
    for (int step = 0; step < 300; ++step) {
      const auto blocks = testing::RandomBlocks(setup, random);
      const GroupLists lists = MustNext(schedule, blocks);
      for (const ScheduledGroup& group : lists.close) {
        ASSERT_EQ(live.at(group.block), group.instance);
        live.erase(group.block);
      }
      for (const ScheduledGroup& group : lists.open) {
        ASSERT_GT(group.instance, last_instance);
        last_instance = group.instance;
        ASSERT_TRUE(live.emplace(group.block, group.instance).second);
      }
      for (int rank = 0; rank < world; ++rank) {
        size_t groups = TreeBlocks(rank, world).size();
        for (const auto& [block, instance] : live) {
          groups += block.Contains(rank) ? 1 : 0;
        }
        ASSERT_LE(groups, 6);
        for (const RankBlock& block : blocks) {
          const auto tree = TreeBlocks(block.first_rank, world);
          const bool aligned =
              std::find(tree.begin(), tree.end(), block) != tree.end();
          ASSERT_TRUE(block.degree == 1 || aligned || live.contains(block));
        }
      }
    }
  }
}

}  // namespace
}  // namespace evenstep::trainer
