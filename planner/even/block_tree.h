#ifndef EVENSTEP_PLANNER_EVEN_BLOCK_TREE_H_
#define EVENSTEP_PLANNER_EVEN_BLOCK_TREE_H_

// The aligned blocks of all legal degrees, as a tree by containment. Why a
// tree: if every rank runs its wider micro-batches first, the ranks of a block
// have all finished the same enclosing blocks, so nobody waits, and the step
// time is the largest sum of loads on a path from the root to a leaf. `even`
// balances that. Immutable after construction; safe to share between threads.
//
// Node 0 is a root above all blocks; it holds no samples. Its children are the
// blocks that no other block contains (one, if the whole world is a block).

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/costs/cost_model.h"
#include "planner/costs/degrees.h"

namespace evenstep::planner {

class BlockTree {
 public:
  static constexpr int kRoot = 0;

  // A level per class of blocks (BlockClasses), as the CostTable has.
  BlockTree(const PlanRequest& request, const CostModel& costs);

  // Parents come before children; wide blocks before narrow ones.
  int num_nodes() const { return static_cast<int>(blocks_.size()); }
  int num_levels() const { return static_cast<int>(level_begin_.size()); }
  // Nodes of one level are [first, second), by first rank.
  std::pair<int, int> NodesOfLevel(int level) const {
    return {level_begin_[level], level_end_[level]};
  }
  const Block& block(int node) const { return blocks_[node]; }
  int level(int node) const { return levels_[node]; }  // of the root: -1
  int parent(int node) const { return parents_[node]; }
  int64_t speed(int node) const { return speeds_[node]; }
  // Whether it is no faster than its slowest rank, and others could be.
  bool HoldsRanksBack(int node) const { return holds_back_[node] != 0; }
  bool HoldsRanksBack() const { return holds_back_[kRoot] != 0; }
  const std::vector<int>& children(int node) const { return children_[node]; }
  // Whether `inner` is `outer` or lies below it.
  bool Contains(int outer, int inner) const {
    const Block& a = blocks_[outer];
    const Block& b = blocks_[inner];
    return a.first_rank <= b.first_rank &&
           b.first_rank + b.degree <= a.first_rank + a.degree;
  }

 private:
  void AddNode(const Block& block, int level, const CostModel& costs,
               std::vector<int>& innermost);

  std::vector<Block> blocks_;
  std::vector<int> levels_;
  std::vector<int> parents_;
  std::vector<int64_t> speeds_;
  std::vector<char> holds_back_;
  std::vector<std::vector<int>> children_;
  std::vector<int> level_begin_;
  std::vector<int> level_end_;
};

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_EVEN_BLOCK_TREE_H_
