#include "planner/even/level_fill.h"

#include <algorithm>

namespace evenstep::planner {
namespace {

// Rank-times that differ by less count as equal.
constexpr int64_t kEqualDivisor = 1000;
// Nodes looked at for samples that do not fit their level, per fill.
constexpr int64_t kMaxNodesScanned = 50000;

}  // namespace

LevelFiller::LevelFiller(const BlockTree& tree, const CostTable& table)
    : tree_(tree), table_(table), by_level_(tree.num_levels()) {}

Fill LevelFiller::FillFor(const FillOptions& options) {
  options_ = options;
  Clear();
  for (int sample = 0; sample < table_.num_samples(); ++sample) {
    by_level_[LevelOf(sample)].push_back(sample);
  }
  for (int level = tree_.num_levels() - 1; level >= 0; --level) {
    FillLevel(level);
  }
  fill_.peak_ns = below_ns_[BlockTree::kRoot];
  return fill_;
}

void LevelFiller::Clear() {
  for (auto& samples : by_level_) samples.clear();
  scanned_ = 0;
  load_ns_.assign(tree_.num_nodes(), 0);
  below_ns_.assign(tree_.num_nodes(), 0);
  last_bin_.assign(tree_.num_nodes(), -1);
  bin_before_.clear();
  bin_room_.clear();
  fill_.bin_node.clear();
  fill_.bin_of.assign(table_.num_samples(), -1);
}

int LevelFiller::LevelOf(int sample) const {
  int level = table_.BestLevel(sample, options_.target_ns);
  level = level < 0 ? FastestLevel(sample) : Narrower(sample, level);
  level = std::clamp(level, options_.lowest_level, options_.highest_level);
  level = std::max(level, table_.first_level(sample));
  while (!table_.Allows(level, sample)) --level;
  return level;
}

// The narrowest that costs hardly more: wide nodes take room from all below.
int LevelFiller::Narrower(int sample, int level) const {
  const int64_t best_ns = table_.rank_ns(level, sample);
  for (int k = table_.first_level(sample); k < level; ++k) {
    if (table_.Allows(k, sample) &&
        table_.alone_ns(k, sample) <= options_.target_ns &&
        table_.rank_ns(k, sample) <= best_ns + best_ns / kEqualDivisor) {
      return k;
    }
  }
  return level;
}

int LevelFiller::FastestLevel(int sample) const {
  int best = table_.first_level(sample);
  for (int level = best + 1; level < table_.num_degrees(); ++level) {
    if (table_.Allows(level, sample) &&
        table_.alone_ns(level, sample) < table_.alone_ns(best, sample)) {
      best = level;
    }
  }
  return best;
}

int64_t LevelFiller::FixedNs(int node) const {
  return CostModel::AtSpeed(table_.fixed_ns(tree_.level(node)),
                            tree_.speed(node));
}

int64_t LevelFiller::SampleNs(int node, int sample) const {
  return CostModel::AtSpeed(table_.sample_ns(tree_.level(node), sample),
                            tree_.speed(node));
}

int64_t LevelFiller::PathNs(int node) const {
  int64_t path_ns = 0;
  for (int up = node; up >= 0; up = tree_.parent(up)) path_ns += load_ns_[up];
  return path_ns;
}

// The fullest that still has room.
int LevelFiller::FindBin(int node, int64_t tokens) const {
  int best = -1;
  int bin = last_bin_[node];
  for (int k = 0; k < kMaxBinsTried && bin >= 0; ++k, bin = bin_before_[bin]) {
    const int64_t room = bin_room_[bin];
    if (room < tokens) continue;
    if (best < 0 || room <= bin_room_[best]) best = bin;
  }
  return best;
}

void LevelFiller::FillLevel(int level) {
  if (by_level_[level].empty()) return;
  heap_.clear();
  spared_.clear();
  widened_ = false;
  const auto [begin, end] = tree_.NodesOfLevel(level);
  for (int node = begin; node < end; ++node) {
    if (IsSpared(node)) {
      spared_.push_back(node);
    } else {
      heap_.push_back({PathNs(node), node});
    }
  }
  std::sort(heap_.begin(), heap_.end());
  if (heap_.empty()) AdmitSpared();
  for (int sample : by_level_[level]) Place(sample, level);
}

void LevelFiller::AdmitSpared() {
  for (int node : spared_) heap_.push_back({PathNs(node), node});
  spared_.clear();
  std::sort(heap_.begin(), heap_.end());
}

void LevelFiller::Place(int sample, int level) {
  // Wider samples placed meanwhile make entries stale: too light, never too
  // heavy.
  while (widened_) {
    const int64_t now_ns = PathNs(heap_[0].second);
    if (now_ns == heap_[0].first) break;
    heap_[0].first = now_ns;
    SinkTop();
  }
  auto& [path_ns, node] = heap_[0];
  const int bin = FindBin(node, Tokens(node, sample));
  const int64_t added_ns =
      SampleNs(node, sample) + (bin < 0 ? FixedNs(node) : 0);
  if (path_ns + added_ns > options_.target_ns) {
    if (!spared_.empty()) {
      AdmitSpared();
      return Place(sample, level);
    }
    const int wider = FindWider(sample, level);
    if (wider >= 0) {
      Add(wider, sample, FindBin(wider, Tokens(wider, sample)));
      widened_ = true;
      return;
    }
  }
  Add(node, sample, bin);
  path_ns += added_ns;
  SinkTop();
}

// The narrowest wider node that stays within the target; -1 if none does.
int LevelFiller::FindWider(int sample, int level) {
  for (int wider = level + 1; wider < tree_.num_levels(); ++wider) {
    if (!table_.Allows(wider, sample)) continue;
    const auto [begin, end] = tree_.NodesOfLevel(wider);
    if ((scanned_ += end - begin) > kMaxNodesScanned) return -1;
    for (int node = begin; node < end; ++node) {
      if (IsSpared(node)) continue;
      const int64_t path_ns =
          PathNs(node) + below_ns_[node] + SampleNs(node, sample);
      if (path_ns > options_.target_ns) continue;
      const bool joins = FindBin(node, Tokens(node, sample)) >= 0;
      if (path_ns + (joins ? 0 : FixedNs(node)) <= options_.target_ns) {
        return node;
      }
    }
  }
  return -1;
}

// Restores the heap after its first entry has grown.
void LevelFiller::SinkTop() {
  const size_t size = heap_.size();
  const Entry entry = heap_[0];
  size_t hole = 0;
  for (size_t child = 1; child < size; child = 2 * hole + 1) {
    if (child + 1 < size && heap_[child + 1] < heap_[child]) ++child;
    if (entry < heap_[child]) break;
    heap_[hole] = heap_[child];
    hole = child;
  }
  heap_[hole] = entry;
}

void LevelFiller::Add(int node, int sample, int bin) {
  load_ns_[node] += SampleNs(node, sample);
  if (bin < 0) {
    bin = static_cast<int>(fill_.bin_node.size());
    fill_.bin_node.push_back(node);
    bin_room_.push_back(table_.capacity_tokens(tree_.level(node)));
    bin_before_.push_back(last_bin_[node]);
    last_bin_[node] = bin;
    load_ns_[node] += FixedNs(node);
  }
  bin_room_[bin] -= Tokens(node, sample);
  fill_.bin_of[sample] = bin;
  RaisePaths(node);
}

void LevelFiller::RaisePaths(int node) {
  for (int up = tree_.parent(node); up >= 0; up = tree_.parent(up)) {
    const int64_t path_ns = load_ns_[node] + below_ns_[node];
    if (path_ns <= below_ns_[up]) return;
    below_ns_[up] = path_ns;
    node = up;
  }
}

}  // namespace evenstep::planner
