#ifndef EVENSTEP_WORKER_TRAINER_COMM_TESTING_RANDOM_GROUPS_H_
#define EVENSTEP_WORKER_TRAINER_COMM_TESTING_RANDOM_GROUPS_H_

// Random plans of contiguous blocks, run by ranks that are threads, over any
// back end: groups are opened and closed between steps, and each micro-batch is
// a sum over its group. For tests of GroupPool.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/trainer/comm/communicator_factory.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/comm/testing/run_ranks.h"

namespace evenstep::trainer::testing {

struct RandomGroups {
  int world = 5;
  int budget = 5;
  int64_t num_openings = 0;  // of distinct groups, over all ranks, at least
  int steps_per_generation = 50;
  uint32_t seed = 1;
};

struct RandomGroupsResult {
  std::vector<absl::Status> statuses;  // by rank
  int64_t opened = 0;                  // groups, each counted once
  int64_t closed = 0;                  // of them, for another one's place
  int64_t num_steps = 0;
};

// For one rank, on its thread.
using RankFactory = std::function<std::unique_ptr<CommunicatorFactory>(int)>;

// A step's blocks in global order, small enough for the budget.
inline std::vector<RankBlock> RandomBlocks(const RandomGroups& setup,
                                           std::mt19937& random) {
  std::vector<RankBlock> blocks;
  std::vector<int> num_beside(setup.world);
  const int tries = 1 + static_cast<int>(random() % 6);
  for (int i = 0; i < tries; ++i) {
    RankBlock block;
    block.degree = 1 + static_cast<int>(random() % setup.world);
    block.first_rank =
        static_cast<int>(random() % (setup.world - block.degree + 1));
    bool fits = true;
    for (int rank = 0; rank < setup.world; ++rank) {
      const auto in_tree =
          static_cast<int>(TreeBlocks(rank, setup.world).size());
      if (block.Contains(rank) && in_tree + num_beside[rank] >= setup.budget) {
        fits = false;
      }
    }
    if (!fits) continue;
    for (int p = 0; p < block.degree; ++p) ++num_beside[block.first_rank + p];
    blocks.push_back(block);
  }
  return blocks;
}

// Each micro-batch sums 1 over its group.
inline absl::Status RunBlocks(const GroupTree& tree,
                              const std::vector<RankBlock>& blocks) {
  for (const RankBlock& block : blocks) {
    if (!block.Contains(tree.rank())) continue;
    EVENSTEP_ASSIGN_OR_RETURN(Communicator * group,
                              tree.GroupFor(block.first_rank, block.degree));
    int64_t sum = 1;
    EVENSTEP_RETURN_IF_ERROR(group->AllReduceSum(absl::MakeSpan(&sum, 1)));
    if (sum != block.degree) {
      return absl::InternalError(
          absl::StrCat("sum over ", block.degree, " ranks is ", sum));
    }
  }
  return absl::OkStatus();
}

inline RandomGroupsResult RunRandomGroups(const RandomGroups& setup,
                                          const RankFactory& make_factory) {
  RandomGroupsResult result;
  const auto body = [&](int rank) -> absl::Status {
    const auto factory = make_factory(rank);
    std::mt19937 random(setup.seed);      // the same plans on every rank
    std::optional<GroupSchedule> shadow;  // counts what is opened
    int64_t opened = 0;
    int64_t closed = 0;
    int64_t step = 0;
    for (int64_t generation = 1; opened < setup.num_openings; ++generation) {
      EVENSTEP_ASSIGN_OR_RETURN(
          auto tree, GroupTree::Build(*factory, generation, rank, setup.world,
                                      setup.budget));
      shadow.emplace(setup.world, setup.budget);
      for (int i = 0; i < setup.steps_per_generation; ++i, ++step) {
        const std::vector<RankBlock> blocks = RandomBlocks(setup, random);
        EVENSTEP_ASSIGN_OR_RETURN(const GroupLists lists, shadow->Next(blocks));
        opened += static_cast<int64_t>(lists.open.size());
        closed += static_cast<int64_t>(lists.close.size());
        EVENSTEP_RETURN_IF_ERROR(tree->Prepare(blocks).status());
        if (tree->counters().live > setup.budget) {
          return absl::InternalError(
              absl::StrCat(tree->counters().live, " groups on rank ", rank));
        }
        EVENSTEP_RETURN_IF_ERROR(RunBlocks(*tree, blocks));
      }
      // A generation ends when all have left its last step.
      EVENSTEP_RETURN_IF_ERROR(tree->world().Barrier());
    }
    if (rank == 0) {
      result.opened = opened;
      result.closed = closed;
      result.num_steps = step;
    }
    return absl::OkStatus();
  };
  result.statuses = RunRanks(setup.world, body);
  return result;
}

}  // namespace evenstep::trainer::testing

#endif  // EVENSTEP_WORKER_TRAINER_COMM_TESTING_RANDOM_GROUPS_H_
