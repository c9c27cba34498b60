#include "planner/even/local_search.h"

#include <algorithm>
#include <vector>

namespace evenstep::planner {
namespace {

constexpr int kSwapNodes = 48;  // targets of swaps

class LocalSearch {
 public:
  LocalSearch(TreePacking& packing, int64_t& trials_left)
      : packing_(packing),
        tree_(packing.tree()),
        trials_left_(trials_left),
        path_ns_(tree_.num_nodes(), 0),
        above_ns_(tree_.num_nodes(), 0) {}

  void Run(int64_t stop_ns) {
    while (trials_left_ > 0 && packing_.PeakNs() > stop_ns) {
      Survey();
      if (!Move() && !Swap()) return;
    }
  }

 private:
  // Load of `from` changes by from_ns (a fall), that of `to` by to_ns.
  struct Change {
    int from;
    int64_t from_ns;
    int to;
    int64_t to_ns;
  };
  struct BestMove {
    int64_t result_ns;
    int sample = -1;
    int node = -1;
  };
  struct BestSwap {
    int64_t result_ns;
    int a = -1;
    int b = -1;
  };

  // Heaviest path through every node, and the path that is heaviest of all.
  void Survey() {
    peak_ns_ = packing_.PeakNs();
    for (int node = 1; node < tree_.num_nodes(); ++node) {
      const int parent = tree_.parent(node);
      above_ns_[node] = above_ns_[parent] + packing_.load_ns(parent);
      path_ns_[node] =
          above_ns_[node] + packing_.load_ns(node) + packing_.below_ns(node);
    }
    trials_left_ -= 1 + tree_.num_nodes() / 64;
    critical_.clear();
    int node = BlockTree::kRoot;
    while (!tree_.children(node).empty()) {
      for (int child : tree_.children(node)) {
        if (path_ns_[child] == peak_ns_) {
          node = child;
          break;
        }
      }
      critical_.push_back(node);
    }
    FindLightNodes();
  }

  // The two lightest of every level: where moves go.
  void FindLightNodes() {
    light_.clear();
    for (int level = 0; level < tree_.num_levels(); ++level) {
      const auto [begin, end] = tree_.NodesOfLevel(level);
      int first = -1, second = -1;
      for (int node = begin; node < end; ++node) {
        if (first < 0 || path_ns_[node] < path_ns_[first]) {
          second = first;
          first = node;
        } else if (second < 0 || path_ns_[node] < path_ns_[second]) {
          second = node;
        }
      }
      light_.push_back(first);
      if (second >= 0) light_.push_back(second);
    }
  }

  // Heaviest path in the two touched subtrees after a change.
  int64_t ResultNs(const Change& change) const {
    const int64_t from_ns = path_ns_[change.from] + change.from_ns;
    const int64_t to_ns = path_ns_[change.to] + change.to_ns;
    if (tree_.Contains(change.from, change.to)) {
      return std::max(from_ns, to_ns + change.from_ns);
    }
    if (tree_.Contains(change.to, change.from)) {
      return std::max(from_ns, BesideNs(change.to, change.from)) + change.to_ns;
    }
    return std::max(from_ns, to_ns);
  }

  // Heaviest path below `outer` that does not pass through `inner`.
  int64_t BesideNs(int outer, int inner) const {
    int64_t beside_ns = 0;
    for (int node = inner; node != outer; node = tree_.parent(node)) {
      for (int sibling : tree_.children(tree_.parent(node))) {
        if (sibling == node) continue;
        beside_ns = std::max(beside_ns, path_ns_[sibling]);
      }
    }
    return beside_ns;
  }

  bool Move() {
    BestMove best{peak_ns_};
    for (int from : critical_) {
      for (int sample : packing_.samples(from)) {
        TryMoves(from, sample, best);
        if (trials_left_ <= 0) break;
      }
    }
    if (best.sample < 0) return false;
    packing_.Remove(best.sample);
    packing_.Add(best.node, best.sample);
    return true;
  }

  void TryMoves(int from, int sample, BestMove& best) {
    const int64_t saved_ns = packing_.RemovingNs(sample);
    if (path_ns_[from] - saved_ns >= best.result_ns) return;
    for (int to : light_) {
      if (to == from || !packing_.Holds(to, sample)) continue;
      --trials_left_;
      // Without room it costs more; this is the cheap test.
      Change change{from, -saved_ns, to, packing_.SampleNs(to, sample)};
      if (ResultNs(change) >= best.result_ns) continue;
      change.to_ns = packing_.AddingNs(to, sample);
      const int64_t result_ns = ResultNs(change);
      if (result_ns < best.result_ns) best = {result_ns, sample, to};
    }
  }

  bool Swap() {
    std::vector<int> nodes;
    for (int node = 1; node < tree_.num_nodes(); ++node) {
      if (!packing_.samples(node).empty()) nodes.push_back(node);
    }
    const auto middle =
        nodes.begin() + std::min<size_t>(kSwapNodes, nodes.size());
    std::partial_sort(nodes.begin(), middle, nodes.end(), [&](int x, int y) {
      if (path_ns_[x] != path_ns_[y]) return path_ns_[x] < path_ns_[y];
      return x < y;
    });
    nodes.erase(middle, nodes.end());
    for (int to : nodes) {
      BestSwap best{peak_ns_};
      for (int from : critical_) TrySwaps(from, to, best);
      if (best.a >= 0) {
        packing_.Swap(best.a, best.b);
        return true;
      }
      if (trials_left_ <= 0) return false;
    }
    return false;
  }

  void TrySwaps(int from, int to, BestSwap& best) {
    if (from == to) return;
    for (int a : packing_.samples(from)) {
      const int64_t a_from_ns = packing_.SampleNs(from, a);
      const int64_t a_to_ns =
          packing_.Holds(to, a) ? packing_.SampleNs(to, a) : -1;
      if (a_to_ns < 0) continue;
      for (int b : packing_.samples(to)) {
        if (--trials_left_ <= 0) return;
        const int64_t from_ns = packing_.SampleNs(from, b) - a_from_ns;
        if (path_ns_[from] + from_ns >= best.result_ns) continue;
        const int64_t to_ns = a_to_ns - packing_.SampleNs(to, b);
        const int64_t result_ns = ResultNs({from, from_ns, to, to_ns});
        if (result_ns >= best.result_ns || !packing_.CanSwap(a, b)) continue;
        best = {result_ns, a, b};
      }
    }
  }

  TreePacking& packing_;
  const BlockTree& tree_;
  int64_t& trials_left_;
  int64_t peak_ns_ = 0;
  std::vector<int64_t> path_ns_;
  std::vector<int64_t> above_ns_;
  std::vector<int> critical_;  // wide to narrow
  std::vector<int> light_;
};

}  // namespace

void ImprovePacking(TreePacking& packing, int64_t stop_ns,
                    int64_t& trials_left) {
  LocalSearch(packing, trials_left).Run(stop_ns);
}

namespace {

constexpr int kNumKicks = 300;
constexpr int kMaxSamplesPerKick = 3;
constexpr int64_t kTrialsPerKick = 400;

// SplitMix64: tiny, and the same everywhere, unlike <random>'s distributions.
class Random {
 public:
  // Uniform enough below a small bound.
  int Below(int bound) {
    state_ += 0x9e3779b97f4a7c15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return static_cast<int>((z ^ (z >> 31)) % static_cast<uint64_t>(bound));
  }

 private:
  uint64_t state_ = 20;
};

void KickOnce(TreePacking& packing, Random& random) {
  const int num_moves = 1 + random.Below(kMaxSamplesPerKick);
  for (int move = 0; move < num_moves; ++move) {
    const int sample = random.Below(packing.num_samples());
    const int level = packing.table().first_level(sample) +
                      random.Below(packing.tree().num_levels() -
                                   packing.table().first_level(sample));
    if (!packing.table().Allows(level, sample)) continue;
    const auto [begin, end] = packing.tree().NodesOfLevel(level);
    const int node = begin + random.Below(end - begin);
    packing.Remove(sample);
    packing.Add(node, sample);
  }
}

}  // namespace

void KickPacking(TreePacking& packing, int64_t stop_ns, int64_t& trials_left) {
  Random random;
  for (int kick = 0; kick < kNumKicks; ++kick) {
    if (trials_left <= 0 || packing.PeakNs() <= stop_ns) return;
    TreePacking kicked = packing;
    KickOnce(kicked, random);
    int64_t trials = std::min(trials_left, kTrialsPerKick);
    trials_left -= trials;
    ImprovePacking(kicked, stop_ns, trials);
    trials_left += std::max<int64_t>(trials, 0);
    if (kicked.PeakNs() <= packing.PeakNs()) packing = std::move(kicked);
  }
}

}  // namespace evenstep::planner
