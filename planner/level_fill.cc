#include "planner/level_fill.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace evenstep::planner {
namespace {

// Rank-times that differ by less count as equal.
constexpr int64_t kEqualDivisor = 1000;
// Nodes looked at for samples that do not fit their level, per fill.
constexpr int64_t kMaxNodesScanned = 50000;

class Filler {
 public:
  Filler(const BlockTree& tree, const CostTable& table,
         const FillOptions& options)
      : packing_(tree, table),
        tree_(tree),
        table_(table),
        options_(options),
        by_level_(tree.num_levels()) {}

  TreePacking Fill() {
    for (int sample = 0; sample < table_.num_samples(); ++sample) {
      by_level_[LevelOf(sample)].push_back(sample);
    }
    for (int level = tree_.num_levels() - 1; level >= 0; --level) {
      FillLevel(level);
    }
    return std::move(packing_);
  }

 private:
  using Entry = std::pair<int64_t, int>;  // path load, node
  using Heap = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;

  int LevelOf(int sample) const {
    int level = table_.BestLevel(sample, options_.target_ns);
    level = level < 0 ? FastestLevel(sample) : Narrower(sample, level);
    level = std::clamp(level, options_.lowest_level, options_.highest_level);
    return std::max(level, table_.first_level(sample));
  }

  // The narrowest that costs hardly more: wide nodes take room from all below.
  int Narrower(int sample, int level) const {
    const int64_t best_ns = table_.rank_ns(level, sample);
    for (int k = table_.first_level(sample); k < level; ++k) {
      if (table_.alone_ns(k, sample) <= options_.target_ns &&
          table_.rank_ns(k, sample) <= best_ns + best_ns / kEqualDivisor) {
        return k;
      }
    }
    return level;
  }

  int FastestLevel(int sample) const {
    int best = table_.first_level(sample);
    for (int level = best + 1; level < table_.num_degrees(); ++level) {
      if (table_.alone_ns(level, sample) < table_.alone_ns(best, sample)) {
        best = level;
      }
    }
    return best;
  }

  int64_t PathNs(int node) const {
    return packing_.AboveNs(node) + packing_.load_ns(node);
  }

  void FillLevel(int level) {
    if (by_level_[level].empty()) return;
    std::vector<Entry> entries;
    const auto [begin, end] = tree_.NodesOfLevel(level);
    for (int node = begin; node < end; ++node) {
      entries.push_back({PathNs(node), node});
    }
    Heap lightest(std::greater<>(), std::move(entries));
    for (int sample : by_level_[level]) Place(sample, level, lightest);
  }

  void Place(int sample, int level, Heap& lightest) {
    // Wider samples placed meanwhile make entries stale: too light, never too
    // heavy.
    while (true) {
      const auto [path_ns, node] = lightest.top();
      const int64_t now_ns = PathNs(node);
      if (now_ns == path_ns) break;
      lightest.pop();
      lightest.push({now_ns, node});
    }
    const auto [path_ns, node] = lightest.top();
    if (path_ns + packing_.AddingNs(node, sample) > options_.target_ns) {
      const int wider = FindWider(sample, level);
      if (wider >= 0) {
        packing_.Add(wider, sample);
        return;
      }
    }
    lightest.pop();
    packing_.Add(node, sample);
    lightest.push({PathNs(node), node});
  }

  // The narrowest wider node that stays within the target; -1 if none does.
  int FindWider(int sample, int level) {
    for (int wider = level + 1; wider < tree_.num_levels(); ++wider) {
      const auto [begin, end] = tree_.NodesOfLevel(wider);
      if ((scanned_ += end - begin) > kMaxNodesScanned) return -1;
      for (int node = begin; node < end; ++node) {
        const int64_t path_ns = PathNs(node) + packing_.below_ns(node);
        if (path_ns + packing_.AddingNs(node, sample) <= options_.target_ns) {
          return node;
        }
      }
    }
    return -1;
  }

  TreePacking packing_;
  const BlockTree& tree_;
  const CostTable& table_;
  const FillOptions options_;
  std::vector<std::vector<int>> by_level_;
  int64_t scanned_ = 0;
};

}  // namespace

TreePacking FillLevels(const BlockTree& tree, const CostTable& table,
                       const FillOptions& options) {
  return Filler(tree, table, options).Fill();
}

}  // namespace evenstep::planner
