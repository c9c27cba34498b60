#ifndef EVENSTEP_PLANNER_EVEN_LEVEL_FILL_H_
#define EVENSTEP_PLANNER_EVEN_LEVEL_FILL_H_

// First plans of `even` for one target time each: degrees by least rank-time
// among those that end within the target, then levels from wide to narrow, long
// samples first, each on the node with the least path so far. Where that would
// pass the target, a wider node that still has room below it is taken. Not
// thread-safe: a filler holds scratch space; make one per plan.

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/costs/cost_table.h"
#include "planner/even/block_tree.h"

namespace evenstep::planner {

// Bins looked at for one sample. Older ones are nearly full, since long samples
// come first; the limit keeps a node with very many bins linear.
inline constexpr int kMaxBinsTried = 32;

// Blocks that a slow rank holds back waste the time of its neighbours, which
// narrower blocks can use.
enum class SlowBlocks {
  kAlike,  // as any other
  kLast    // only for what would pass the target elsewhere
};

struct FillOptions {
  int64_t target_ns = 0;
  // Levels outside are used only by samples that fit no other: for fixed costs
  // that are large against the work.
  int lowest_level = 0;
  int highest_level = 0;
  SlowBlocks slow_blocks = SlowBlocks::kAlike;
};

// Which micro-batch every sample is in, and where those run: what is needed to
// compare fills, and to make a TreePacking of the best.
struct Fill {
  int64_t peak_ns = 0;
  std::vector<int> bin_of;    // by sample
  std::vector<int> bin_node;  // by bin, in the order opened
};

class LevelFiller {
 public:
  // Both must outlive the filler.
  LevelFiller(const BlockTree& tree, const CostTable& table);

  Fill FillFor(const FillOptions& options);

 private:
  using Entry = std::pair<int64_t, int>;  // path load, node

  void Clear();
  int LevelOf(int sample) const;
  int Narrower(int sample, int level) const;
  int FastestLevel(int sample) const;
  bool IsSpared(int node) const {
    return options_.slow_blocks == SlowBlocks::kLast &&
           tree_.HoldsRanksBack(node);
  }
  int64_t FixedNs(int node) const;
  int64_t SampleNs(int node, int sample) const;
  int64_t PathNs(int node) const;
  int64_t Tokens(int node, int sample) const {
    return table_.tokens(tree_.level(node), sample);
  }
  int FindBin(int node, int64_t tokens) const;
  void FillLevel(int level);
  void AdmitSpared();
  void Place(int sample, int level);
  int FindWider(int sample, int level);
  void SinkTop();
  void Add(int node, int sample, int bin);
  void RaisePaths(int node);

  const BlockTree& tree_;
  const CostTable& table_;
  FillOptions options_;
  std::vector<std::vector<int>> by_level_;
  std::vector<Entry> heap_;  // lightest first, of the level at hand
  std::vector<int> spared_;  // nodes of the level that are not in the heap yet
  bool widened_ = false;     // so that paths in the heap may be stale
  int64_t scanned_ = 0;
  std::vector<int64_t> load_ns_;   // by node
  std::vector<int64_t> below_ns_;  // by node: heaviest path of its children
  std::vector<int> last_bin_;      // by node; -1: none
  std::vector<int> bin_before_;    // by bin, of the same node
  std::vector<int64_t> bin_room_;  // by bin
  Fill fill_;
};

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_EVEN_LEVEL_FILL_H_
