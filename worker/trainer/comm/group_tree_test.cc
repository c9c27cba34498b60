#include "worker/trainer/comm/group_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/status_macros.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/comm/testing/run_ranks.h"

namespace evenstep::trainer {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RunRanks;

TEST(TreeBlocksTest, APowerOfTwoHasOneGroupPerLevel) {
  EXPECT_THAT(TreeBlocks(5, 8),
              ElementsAre(RankBlock{4, 2}, RankBlock{4, 4}, RankBlock{0, 8}));
  EXPECT_THAT(TreeBlocks(0, 1), IsEmpty());
}

// 64 ranks need 6 groups each.
TEST(TreeBlocksTest, SixtyFourRanksNeedSixGroupsEach) {
  for (int rank = 0; rank < 64; ++rank) {
    EXPECT_EQ(TreeBlocks(rank, 64).size(), 6);
  }
}

// On 6 ranks a block of 4 leaves a block of 2, never another 4.
TEST(TreeBlocksTest, SixRanksAreFourAndTwoAndTheWorld) {
  EXPECT_THAT(TreeBlocks(1, 6),
              ElementsAre(RankBlock{0, 2}, RankBlock{0, 4}, RankBlock{0, 6}));
  EXPECT_THAT(TreeBlocks(5, 6), ElementsAre(RankBlock{4, 2}, RankBlock{0, 6}));
  EXPECT_THAT(TreeBlocks(2, 3), ElementsAre(RankBlock{0, 3}));
}

// Groups are made by rank set, once.
TEST(TreeBlocksTest, NoBlockAppearsTwice) {
  for (int world = 1; world <= 33; ++world) {
    for (int rank = 0; rank < world; ++rank) {
      std::set<std::pair<int, int>> seen;
      for (const RankBlock& block : TreeBlocks(rank, world)) {
        EXPECT_TRUE(block.Contains(rank));
        EXPECT_TRUE(seen.insert({block.first_rank, block.degree}).second);
      }
    }
  }
}

// Counts what a rank creates.
class CountingFactory : public CommunicatorFactory {
 public:
  explicit CountingFactory(std::unique_ptr<CommunicatorFactory> inner)
      : inner_(std::move(inner)) {}
  absl::StatusOr<std::unique_ptr<Communicator>> Create(const std::string& key,
                                                       const RankBlock& block,
                                                       int rank) override {
    ++created;
    return inner_->Create(key, block, rank);
  }
  int created = 0;

 private:
  const std::unique_ptr<CommunicatorFactory> inner_;
};

TEST(GroupTreeTest, LookingUpAGroupCreatesNothing) {
  InProcessHub hub;
  const auto statuses = RunRanks(6, [&](int rank) -> absl::Status {
    CountingFactory factory(hub.MakeFactory());
    EVENSTEP_ASSIGN_OR_RETURN(auto tree, GroupTree::Build(factory, 1, rank, 6));
    const int created = factory.created;
    EXPECT_EQ(created, tree->num_groups());
    EXPECT_EQ(created, rank < 4 ? 3 : 2);
    EVENSTEP_ASSIGN_OR_RETURN(Communicator * pair,
                              tree->GroupFor(rank / 2 * 2, 2));
    EVENSTEP_ASSIGN_OR_RETURN(Communicator * again,
                              tree->GroupFor(rank / 2 * 2, 2));
    EXPECT_EQ(pair, again);
    EXPECT_EQ(pair->size(), 2);
    EXPECT_EQ(pair->rank(), rank % 2);
    EXPECT_EQ(tree->world().size(), 6);
    EXPECT_EQ(factory.created, created);
    // Warmed, so first-use times stay out of measurements.
    EXPECT_GT(pair->collective_ns(), 0);
    return tree->world().Barrier();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

TEST(GroupTreeTest, AGroupThatIsNotThereIsNamedWithThoseThatAre) {
  InProcessHub hub;
  auto tree = GroupTree::Build(*hub.MakeFactory(), 4, 0, 1);
  ASSERT_TRUE(tree.ok()) << tree.status();
  const absl::Status status = (*tree)->GroupFor(2, 2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("no group of 2 ranks from rank 2 for rank 0 of 1 in "
                        "generation 4; its groups (first rank + degree) are "
                        "0+1"));
  EXPECT_EQ((*tree)->world().size(), 1);
}

TEST(GroupTreeTest, ARankOutsideTheWorldIsRefused) {
  InProcessHub hub;
  EXPECT_EQ(GroupTree::Build(*hub.MakeFactory(), 1, 2, 2).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(GroupTreeTest, AbortReachesEveryGroup) {
  InProcessHub hub;
  auto tree = GroupTree::Build(*hub.MakeFactory(), 1, 0, 1);
  ASSERT_TRUE(tree.ok());
  (*tree)->Abort("stop");
  EXPECT_EQ((*tree)->world().Barrier().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace evenstep::trainer
