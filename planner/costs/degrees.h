#ifndef EVENSTEP_PLANNER_COSTS_DEGREES_H_
#define EVENSTEP_PLANNER_COSTS_DEGREES_H_

// Which degrees and blocks exist: what the heads and modes of sequence
// parallelism allow, and where blocks stand. Used by every policy and by submit
// time checks. Stateless.
//
// Aligned blocks: a block of degree d, a power of two, starts at a multiple of
// d and ends within the world; the whole world is a block too, if its size is a
// legal degree. So two blocks are nested or disjoint, for every world size: on
// 6 ranks a block of 4 leaves one of 2.
// Contiguous blocks: any degree that the model allows, from any rank.

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/request.h"

namespace evenstep::planner {

struct Block {
  int first_rank = 0;
  int degree = 1;

  friend bool operator==(const Block&, const Block&) = default;
};

// How a group of `degree` ranks shares its sequences.
struct SequenceSplit {
  SpMode mode = SpMode::kUlysses;
  int degree = 1;
  int ulysses_degree = 1;  // times gather_degree it is the degree; both are 1
  int gather_degree = 1;   // under switch
};

// Ulysses: the degree divides the query heads, and either divides the K/V heads
// or is a multiple of them (then K and V are replicated), or they are expanded.
bool HeadsAllow(const ModelShape& model, int degree);

// K/V heads that a group of so many ranks has beside the model's own: copies
// where it is wider than there are, or where they are expanded.
int CopiedKvHeads(const ModelShape& model, int ulysses_degree);

// Nothing if no allowed mode can run the degree.
std::optional<SequenceSplit> FindSplit(const ModelShape& model, int degree);
// The same, with ulysses for a degree that is not legal.
SequenceSplit SplitFor(const ModelShape& model, int degree);

// Blocks that cost the same, speed aside. Where the costs know no difference
// between nodes, no block counts as crossing.
struct BlockClass {
  int degree = 1;
  bool crosses_nodes = false;

  friend bool operator==(const BlockClass&, const BlockClass&) = default;
};

// Tells the classes of blocks. Small; copied with the cost model.
class NodeMap {
 public:
  NodeMap(const TimeModel& time, const Cluster& cluster);

  BlockClass ClassOf(const Block& block) const {
    const int last_rank = block.first_rank + block.degree - 1;
    return {block.degree,
            !node_of_rank_.empty() &&
                node_of_rank_[block.first_rank] != node_of_rank_[last_rank]};
  }

 private:
  std::vector<int> node_of_rank_;  // empty: no difference between nodes
};

// Classes of all blocks that the request allows, by ascending degree; of one
// degree, within a node first.
std::vector<BlockClass> BlockClasses(const PlanRequest& request);
// The blocks of a class, by first rank.
std::vector<Block> BlocksOfClass(const PlanRequest& request,
                                 const BlockClass& block_class);

// Degrees that the model's heads allow on this cluster's blocks of the asked
// shape, ascending; 1 is always among them.
std::vector<int> LegalDegrees(const PlanRequest& request);
// The same, of a cluster of so many ranks.
std::vector<int> LegalDegreesFor(int num_ranks, const ModelShape& model,
                                 BlockShape shape);

// Blocks of one degree, by first rank. `degree` must be legal.
std::vector<Block> AlignedBlocks(int num_ranks, int degree);
std::vector<Block> BlocksOf(int num_ranks, int degree, BlockShape shape);

// Up to a multiple of `degree`.
int64_t PaddedTokens(int64_t tokens, int64_t degree);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_COSTS_DEGREES_H_
