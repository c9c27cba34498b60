#include "planner/even/block_tree.h"

#include <algorithm>

namespace evenstep::planner {
namespace {

int64_t FastestRank(const Block& block, const CostModel& costs) {
  int64_t fastest = 0;
  for (int i = 0; i < block.degree; ++i) {
    fastest = std::max(fastest, costs.BlockSpeed({block.first_rank + i, 1}));
  }
  return fastest;
}

}  // namespace

BlockTree::BlockTree(const PlanRequest& request, const CostModel& costs) {
  const int num_ranks = request.cluster.num_ranks();
  const std::vector<BlockClass> classes = BlockClasses(request);
  level_begin_.resize(classes.size());
  level_end_.resize(classes.size());
  // By rank, the narrowest block added so far that contains it.
  std::vector<int> innermost(num_ranks, -1);
  AddNode({0, num_ranks}, -1, costs, innermost);
  for (int level = num_levels() - 1; level >= 0; --level) {
    level_begin_[level] = num_nodes();
    for (const Block& block : BlocksOfClass(request, classes[level])) {
      AddNode(block, level, costs, innermost);
    }
    level_end_[level] = num_nodes();
  }
}

void BlockTree::AddNode(const Block& block, int level, const CostModel& costs,
                        std::vector<int>& innermost) {
  const int node = num_nodes();
  const int parent = innermost[block.first_rank];
  blocks_.push_back(block);
  levels_.push_back(level);
  parents_.push_back(parent);
  speeds_.push_back(costs.BlockSpeed(block));
  holds_back_.push_back(speeds_.back() < FastestRank(block, costs) ? 1 : 0);
  children_.emplace_back();
  if (parent >= 0) children_[parent].push_back(node);
  const auto first = innermost.begin() + block.first_rank;
  std::fill(first, first + block.degree, node);
}

}  // namespace evenstep::planner
