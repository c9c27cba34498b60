#include "planner/even/exact.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace evenstep::planner {
namespace {

constexpr int64_t kImpossible = INT64_MAX / 4;
// Tables cost 3^samples operations each.
constexpr int kMaxShapes = 64;

using Mask = unsigned;  // set of samples

// Nodes with the same shape have the same subtree: level, speed and children.
struct Shapes {
  using Key = std::tuple<int, int64_t, std::vector<int>>;
  std::vector<int> of_node;
  std::vector<int> example_node;  // by shape
  // Children of a shape are shapes; they come before it.
  std::vector<std::vector<int>> children;
};

Shapes FindShapes(const BlockTree& tree) {
  Shapes shapes;
  std::map<Shapes::Key, int> known;
  shapes.of_node.resize(tree.num_nodes());
  for (int node = tree.num_nodes() - 1; node >= 0; --node) {
    std::vector<int> children;
    for (int child : tree.children(node)) {
      children.push_back(shapes.of_node[child]);
    }
    const int next = static_cast<int>(known.size());
    const auto [entry, is_new] =
        known.insert({{tree.level(node), tree.speed(node), children}, next});
    shapes.of_node[node] = entry->second;
    if (!is_new) continue;
    shapes.example_node.push_back(node);
    shapes.children.push_back(std::move(children));
  }
  return shapes;
}

class ExactSolver {
 public:
  ExactSolver(const PolicyInput& input, const BlockTree& tree)
      : input_(input),
        tree_(tree),
        shapes_(FindShapes(tree)),
        all_((Mask{1} << input.table.num_samples()) - 1),
        tables_(shapes_.example_node.size()) {}

  std::vector<Placement> Solve() {
    for (size_t shape = 0; shape < tables_.size(); ++shape) {
      FillTable(static_cast<int>(shape));
    }
    Emit(BlockTree::kRoot, all_);
    // Parents were emitted before children, but not level by level.
    std::stable_sort(placements_.begin(), placements_.end(),
                     [](const Placement& a, const Placement& b) {
                       if (a.block.degree != b.block.degree) {
                         return a.block.degree > b.block.degree;
                       }
                       return a.block.first_rank < b.block.first_rank;
                     });
    return std::move(placements_);
  }

 private:
  // All vectors by mask.
  struct Table {
    // Time of the set run on the node itself, and its first micro-batch.
    std::vector<int64_t> own_ns;
    std::vector<Mask> first_batch;
    // split[k]: the part of the set that children k.. leave to child k.
    std::vector<std::vector<Mask>> split;
    // Least step time of the subtree, and the part run on the node itself.
    std::vector<int64_t> subtree_ns;
    std::vector<Mask> own_part;
  };

  int64_t BatchNs(int node, Mask set) const {
    const int level = tree_.level(node);
    const BlockClass& block_class = input_.table.block_class(level);
    BatchSize size;
    for (int i = 0; i < input_.table.num_samples(); ++i) {
      if ((set >> i & 1) == 0) continue;
      if (!input_.table.Allows(level, i)) return kImpossible;
      const Sample& sample =
          input_.request.samples[input_.table.request_index(i)];
      size += input_.costs.SizeAt(block_class.degree, sample);
    }
    if (size.tokens > input_.table.capacity_tokens(level)) return kImpossible;
    return CostModel::AtSpeed(input_.costs.MicroBatchNs(block_class, size),
                              tree_.speed(node));
  }

  void FillOwn(int node, Table& table) const {
    table.own_ns.assign(all_ + 1, kImpossible);
    table.first_batch.assign(all_ + 1, 0);
    table.own_ns[0] = 0;
    if (node == BlockTree::kRoot) return;
    std::vector<int64_t> batch_ns(all_ + 1, 0);
    for (Mask set = 1; set <= all_; ++set) batch_ns[set] = BatchNs(node, set);
    for (Mask set = 1; set <= all_; ++set) {
      const Mask lowest = set & -set;  // is in the first micro-batch
      for (Mask batch = set; batch != 0; batch = (batch - 1) & set) {
        if ((batch & lowest) == 0) continue;
        const int64_t ns = batch_ns[batch] + table.own_ns[set ^ batch];
        if (ns >= table.own_ns[set]) continue;
        table.own_ns[set] = ns;
        table.first_batch[set] = batch;
      }
    }
  }

  // Least peak of the children, for every set shared among them.
  std::vector<int64_t> FillSplit(int shape, Table& table) const {
    std::vector<int64_t> peak_ns(all_ + 1, kImpossible);
    peak_ns[0] = 0;
    for (int child : shapes_.children[shape]) {
      const auto& child_ns = tables_[child].subtree_ns;
      std::vector<int64_t> next_ns(all_ + 1, kImpossible);
      std::vector<Mask>& split = table.split.emplace_back(all_ + 1, 0);
      for (Mask set = 0; set <= all_; ++set) {
        for (Mask part = set;; part = (part - 1) & set) {
          const int64_t ns = std::max(child_ns[part], peak_ns[set ^ part]);
          if (ns < next_ns[set]) {
            next_ns[set] = ns;
            split[set] = part;
          }
          if (part == 0) break;
        }
      }
      peak_ns = std::move(next_ns);
    }
    return peak_ns;
  }

  void FillTable(int shape) {
    Table& table = tables_[shape];
    FillOwn(shapes_.example_node[shape], table);
    const std::vector<int64_t> children_ns = FillSplit(shape, table);
    table.subtree_ns.assign(all_ + 1, kImpossible);
    table.own_part.assign(all_ + 1, 0);
    for (Mask set = 0; set <= all_; ++set) {
      for (Mask own = set;; own = (own - 1) & set) {
        const int64_t ns = table.own_ns[own] + children_ns[set ^ own];
        if (ns < table.subtree_ns[set]) {
          table.subtree_ns[set] = ns;
          table.own_part[set] = own;
        }
        if (own == 0) break;
      }
    }
  }

  void Emit(int node, Mask set) {
    if (set == 0) return;
    const Table& table = tables_[shapes_.of_node[node]];
    Mask own = table.own_part[set];
    set ^= own;
    while (own != 0) {
      const Mask batch = table.first_batch[own];
      placements_.push_back({tree_.block(node), Indices(batch)});
      own ^= batch;
    }
    const auto& children = tree_.children(node);
    for (size_t k = children.size(); k-- > 0;) {
      const Mask part = table.split[k][set];
      Emit(children[k], part);
      set ^= part;
    }
  }

  std::vector<int> Indices(Mask set) const {
    std::vector<int> indices;
    for (int i = 0; i < input_.table.num_samples(); ++i) {
      if (set >> i & 1) indices.push_back(input_.table.request_index(i));
    }
    std::sort(indices.begin(), indices.end());
    return indices;
  }

  const PolicyInput& input_;
  const BlockTree& tree_;
  const Shapes shapes_;
  const Mask all_;
  std::vector<Table> tables_;  // by shape
  std::vector<Placement> placements_;
};

}  // namespace

bool ExactIsAffordable(const PolicyInput& input, const BlockTree& tree) {
  if (input.table.num_samples() > kMaxExactSamples) return false;
  const Shapes shapes = FindShapes(tree);
  size_t tables = shapes.children.size();
  for (const auto& children : shapes.children) tables += children.size();
  return tables <= kMaxShapes;
}

std::vector<Placement> PlaceExactly(const PolicyInput& input,
                                    const BlockTree& tree) {
  return ExactSolver(input, tree).Solve();
}

}  // namespace evenstep::planner
