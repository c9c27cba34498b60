#ifndef EVENSTEP_PLANNER_EVEN_TREE_PACKING_H_
#define EVENSTEP_PLANNER_EVEN_TREE_PACKING_H_

// A plan in the making, for `even`: every sample in a micro-batch, every
// micro-batch on a node of the block tree, and the loads that follow. Samples
// are numbered as in the CostTable (longest first). Cheap to change one sample
// at a time; copied to keep the best. Refers to tree and table, which must
// outlive it. Not thread-safe.
//
// Loads add up SampleNs, so they may differ from the exact prediction by some
// nanoseconds a micro-batch; the final plan is predicted exactly.

#include <cstdint>
#include <vector>

#include "planner/costs/cost_table.h"
#include "planner/evaluate.h"
#include "planner/even/block_tree.h"
#include "planner/even/level_fill.h"

namespace evenstep::planner {

class TreePacking {
 public:
  // Starts from a fill.
  TreePacking(const BlockTree& tree, const CostTable& table, const Fill& fill);

  const BlockTree& tree() const { return *tree_; }
  const CostTable& table() const { return *table_; }

  // The step time so far: the heaviest path.
  int64_t PeakNs() const { return below_ns_[BlockTree::kRoot]; }
  int64_t load_ns(int node) const { return load_ns_[node]; }
  // Heaviest path from the node's children down.
  int64_t below_ns(int node) const { return below_ns_[node]; }

  // What the sample itself costs on this node.
  int64_t SampleNs(int node, int sample) const {
    const int64_t nominal_ns = table_->sample_ns(tree_->level(node), sample);
    return CostModel::AtSpeed(nominal_ns, tree_->speed(node));
  }
  // The same plus the fixed cost if no micro-batch has room for it.
  int64_t AddingNs(int node, int sample) const;
  // What the node's load falls by when the sample leaves.
  int64_t RemovingNs(int sample) const;
  bool Holds(int node, int sample) const {
    return table_->Allows(tree_->level(node), sample);
  }

  // Joins the micro-batch with the least room that suffices, else opens one.
  void Add(int node, int sample);
  void Remove(int sample);
  // Whether a and b could change micro-batches.
  bool CanSwap(int a, int b) const;
  void Swap(int a, int b);

  int node_of(int sample) const { return bins_[bin_of_[sample]].node; }
  const std::vector<int>& samples(int node) const { return samples_[node]; }
  int num_samples() const { return table_->num_samples(); }

  // Widest first; samples by index. Global order of the plan.
  std::vector<Placement> ToPlacements() const;

 private:
  struct Bin {
    int node = 0;
    int num_samples = 0;
    int64_t room_tokens = 0;
  };

  int64_t FixedNs(int node) const {
    return CostModel::AtSpeed(table_->fixed_ns(tree_->level(node)),
                              tree_->speed(node));
  }
  int64_t Tokens(int node, int sample) const {
    return table_->tokens(tree_->level(node), sample);
  }
  int FindBin(int node, int64_t tokens) const;  // -1: none has room
  int OpenBin(int node);
  void CloseBin(int bin);
  void PutInBin(int bin, int sample);
  void TakeFromBin(int sample);
  void ChangeLoad(int node, int64_t delta_ns);

  const BlockTree* tree_;
  const CostTable* table_;
  std::vector<int64_t> load_ns_;           // by node
  std::vector<int64_t> below_ns_;          // by node
  std::vector<std::vector<int>> samples_;  // by node
  std::vector<std::vector<int>> bins_of_node_;
  std::vector<Bin> bins_;
  std::vector<int> free_bins_;
  std::vector<int> bin_of_;    // by sample
  std::vector<int> position_;  // by sample: within samples_ of its node
};

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_EVEN_TREE_PACKING_H_
