#include "worker/trainer/comm/group_pool.h"

#include <atomic>
#include <set>
#include <thread>

#include "absl/synchronization/notification.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/comm/in_process_communicator.h"
#include "worker/trainer/comm/nccl_communicator.h"
#include "worker/trainer/comm/testing/fake_nccl.h"
#include "worker/trainer/comm/testing/random_groups.h"

namespace evenstep::trainer {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RunBlocks;
using testing::RunRanks;

// Notes the keys under which a rank creates.
class KeepingFactory : public CommunicatorFactory {
 public:
  explicit KeepingFactory(std::unique_ptr<CommunicatorFactory> inner)
      : inner_(std::move(inner)) {}
  absl::StatusOr<std::unique_ptr<Communicator>> Create(const std::string& key,
                                                       const RankBlock& block,
                                                       int rank) override {
    keys.push_back(key);
    return inner_->Create(key, block, rank);
  }
  std::vector<std::string> keys;

 private:
  const std::unique_ptr<CommunicatorFactory> inner_;
};

// Expects that steps of blocks run on a world of threads, that no group is
// opened inside a step and none is left. Returns rank 1's keys of groups beside
// the tree.
std::vector<std::string> ExpectStepsRun(
    int world, int budget, const std::vector<std::vector<RankBlock>>& steps) {
  InProcessHub hub;
  std::vector<std::string> keys;
  const auto statuses = RunRanks(world, [&](int rank) -> absl::Status {
    KeepingFactory factory(hub.MakeFactory());
    EVENSTEP_ASSIGN_OR_RETURN(
        auto tree, GroupTree::Build(factory, 7, rank, world, budget));
    factory.keys.clear();
    for (const auto& blocks : steps) {
      EVENSTEP_RETURN_IF_ERROR(tree->Prepare(blocks).status());
      const size_t created = factory.keys.size();
      EVENSTEP_RETURN_IF_ERROR(RunBlocks(*tree, blocks));
      EXPECT_EQ(factory.keys.size(), created) << "nothing inside a step";
    }
    if (rank == 1) keys = factory.keys;
    return tree->world().Barrier();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
  EXPECT_EQ(hub.num_groups(), 0);
  return keys;
}

TEST(GroupPoolTest, KeysNameGenerationBlockAndInstance) {
  EXPECT_THAT(
      ExpectStepsRun(4, 3, {{{1, 2}}, {{1, 2}, {1, 2}}, {{1, 3}}, {{1, 2}}}),
      ElementsAre("generation-7/group-1+2/instance-1",
                  "generation-7/group-1+3/instance-2",
                  "generation-7/group-1+2/instance-3"));
}

// A on 0-5, B on 6-7, then C on 4-7: each rank's order is a part of
// one global order, so nobody waits forever.
TEST(GroupPoolTest, OverlappingBlocksRunInTheirGlobalOrder) {
  ExpectStepsRun(8, 16, {{{0, 6}, {6, 2}, {4, 4}}});
}

// Degree 5 on 6 ranks.
TEST(GroupPoolTest, AnyDegreeRunsOnAnyWorld) {
  for (int world = 2; world <= 7; ++world) {
    std::vector<std::vector<RankBlock>> steps;
    for (int degree = 1; degree <= world; ++degree) {
      steps.emplace_back();
      for (int first = 0; first + degree <= world; first += degree) {
        steps.back().push_back({first, degree});
      }
      steps.push_back({{world - degree, degree}});
    }
    ExpectStepsRun(world, 8, steps);
  }
}

// In a new generation a group has another key, and the old one
// cannot be found.
TEST(GroupPoolTest, NothingSurvivesAGeneration) {
  InProcessHub hub;
  const auto statuses = RunRanks(3, [&](int rank) -> absl::Status {
    KeepingFactory factory(hub.MakeFactory());
    std::set<std::string> seen;
    for (int64_t generation = 1; generation <= 3; ++generation) {
      EVENSTEP_ASSIGN_OR_RETURN(auto tree,
                                GroupTree::Build(factory, generation, rank, 3));
      EXPECT_EQ(tree->GroupFor(1, 2).status().code(),
                absl::StatusCode::kNotFound);
      EVENSTEP_RETURN_IF_ERROR(
          tree->Prepare(std::vector<RankBlock>{{1, 2}}).status());
      EXPECT_EQ(tree->GroupFor(1, 2).ok(), rank > 0);
      EVENSTEP_RETURN_IF_ERROR(tree->world().Barrier());
      for (const std::string& key : factory.keys) {
        EXPECT_TRUE(seen.insert(key).second) << key;
        EXPECT_THAT(key, HasSubstr(absl::StrCat("generation-", generation)));
      }
      factory.keys.clear();
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

// Warm before the step that uses it.
TEST(GroupPoolTest, ANewGroupIsWarmAndCounted) {
  InProcessHub hub;
  const auto statuses = RunRanks(3, [&](int rank) -> absl::Status {
    auto factory = hub.MakeFactory();
    EVENSTEP_ASSIGN_OR_RETURN(auto tree,
                              GroupTree::Build(*factory, 1, rank, 3));
    const GroupCounters before = tree->counters();
    EVENSTEP_RETURN_IF_ERROR(
        tree->Prepare(std::vector<RankBlock>{{1, 2}}).status());
    const GroupCounters after = tree->counters();
    EXPECT_EQ(after.live - before.live, rank > 0 ? 1 : 0);
    EXPECT_EQ(after.created - before.created, rank > 0 ? 1 : 0);
    if (rank == 0) return absl::OkStatus();
    EXPECT_GT(after.creation_time, before.creation_time);
    EVENSTEP_ASSIGN_OR_RETURN(Communicator * pair, tree->GroupFor(1, 2));
    EXPECT_GT(pair->collective_ns(), 0);
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

// Within a generation: what a step closed is not found any more.
TEST(GroupPoolTest, AGroupThatWasClosedForAnotherIsNotFound) {
  InProcessHub hub;
  const auto statuses = RunRanks(4, [&](int rank) -> absl::Status {
    auto factory = hub.MakeFactory();
    EVENSTEP_ASSIGN_OR_RETURN(auto tree,
                              GroupTree::Build(*factory, 1, rank, 4, 3));
    EVENSTEP_RETURN_IF_ERROR(
        tree->Prepare(std::vector<RankBlock>{{1, 2}}).status());
    if (rank == 1 || rank == 2) {
      EVENSTEP_RETURN_IF_ERROR(tree->GroupFor(1, 2).status());
    }
    EVENSTEP_RETURN_IF_ERROR(
        tree->Prepare(std::vector<RankBlock>{{1, 3}}).status());
    const absl::Status closed = tree->GroupFor(1, 2).status();
    EXPECT_EQ(closed.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(closed.message()),
                HasSubstr("no group of 2 ranks from rank 1"));
    EXPECT_EQ(tree->GroupFor(1, 3).ok(), rank > 0);
    return tree->world().Barrier();
  });
  EXPECT_THAT(statuses, Each(absl::OkStatus()));
}

TEST(GroupPoolTest, EveryRankRefusesAStepBeyondTheBudget) {
  InProcessHub hub;
  const auto statuses = RunRanks(4, [&](int rank) -> absl::Status {
    auto factory = hub.MakeFactory();
    EVENSTEP_ASSIGN_OR_RETURN(auto tree,
                              GroupTree::Build(*factory, 1, rank, 4, 2));
    const absl::Status refused =
        tree->Prepare(std::vector<RankBlock>{{1, 2}}).status();
    EVENSTEP_RETURN_IF_ERROR(tree->world().Barrier());
    return refused;
  });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status, statuses[0]);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(GroupPoolTest, AFailureToOpenNamesTheGroup) {
  class FailingFactory : public CommunicatorFactory {
    absl::StatusOr<std::unique_ptr<Communicator>> Create(const std::string&,
                                                         const RankBlock&,
                                                         int) override {
      return absl::UnavailableError("no route");
    }
  };
  FailingFactory factory;
  GroupPool pool(&factory, {.generation = 1, .rank = 1, .world = 4});
  EXPECT_EQ(
      pool.Prepare(std::vector<RankBlock>{{1, 2}}).status(),
      absl::UnavailableError("group 1+2, instance 1, of rank 1: no route"));
  EXPECT_EQ(pool.Find({1, 2}), nullptr);
}

// Rank 1 aborts from another thread: its open groups fail, and it opens no
// more.
TEST(GroupPoolTest, AnAbortReachesOpenGroupsAndThoseToCome) {
  InProcessHub hub;
  const auto statuses = RunRanks(3, [&](int rank) -> absl::Status {
    auto factory = hub.MakeFactory();
    EVENSTEP_ASSIGN_OR_RETURN(auto tree,
                              GroupTree::Build(*factory, 1, rank, 3));
    EVENSTEP_RETURN_IF_ERROR(
        tree->Prepare(std::vector<RankBlock>{{1, 2}}).status());
    if (rank == 0) return absl::OkStatus();
    EVENSTEP_ASSIGN_OR_RETURN(Communicator * pair, tree->GroupFor(1, 2));
    if (rank == 2) return pair->Barrier();
    std::thread([&] { tree->Abort("the generation is over"); }).join();
    EXPECT_EQ(pair->Barrier().code(), absl::StatusCode::kAborted);
    return tree->Prepare(std::vector<RankBlock>{{1, 2}}).status();
  });
  EXPECT_EQ(statuses[1].code(), absl::StatusCode::kAborted);
  EXPECT_EQ(statuses[2].code(), absl::StatusCode::kUnavailable);
}

TEST(GroupPoolTest, RandomPlansOpenAndCloseWithoutLeakOrDeadlock) {
  for (int world : {3, 5, 6}) {
    InProcessHub hub;
    const auto result = testing::RunRandomGroups(
        {.world = world,
         .budget = 5,
         .num_openings = 300,
         .seed = static_cast<uint32_t>(world)},
        [&hub](int /*rank*/) { return hub.MakeFactory(); });
    EXPECT_THAT(result.statuses, Each(absl::OkStatus()));
    EXPECT_GE(result.opened, 300);
    EXPECT_EQ(result.closed > 0, world > 3) << "three ranks need no room";
    EXPECT_EQ(hub.num_groups(), 0);
  }
}

// Every rank leaves a group of NCCL in its own time: whoever closes first must
// neither break it for the others nor wait for them.
TEST(GroupPoolTest, RandomPlansOpenAndCloseOverNccl) {
  constexpr int kWorld = 5;
  testing::FakeNccl nccl;
  testing::NcclFaults no_faults;
  MemoryRendezvousStore store;
  std::vector<std::unique_ptr<NcclTable>> tables;
  for (int rank = 0; rank < kWorld; ++rank) {
    tables.push_back(nccl.MakeTable(&no_faults));
  }
  const auto result = testing::RunRandomGroups(
      {.world = kWorld, .budget = 5, .num_openings = 100, .seed = 5},
      [&](int rank) {
        NcclOptions options;
        options.end_process = [](absl::string_view why) {
          ADD_FAILURE() << std::string(why);
        };
        return MakeNcclFactory(options, tables[rank].get(), &store);
      });
  EXPECT_THAT(result.statuses, Each(absl::OkStatus()));
  EXPECT_GT(result.closed, 0);
  EXPECT_EQ(nccl.num_aborted(), 0) << "each is closed";
  EXPECT_GT(nccl.num_destroyed(), 2 * result.opened);
  EXPECT_EQ(nccl.num_live(), 0);
  EXPECT_EQ(nccl.num_allocations(), 0);
}

}  // namespace
}  // namespace evenstep::trainer
