#include "planner/even/tree_packing.h"

#include <algorithm>

namespace evenstep::planner {
TreePacking::TreePacking(const BlockTree& tree, const CostTable& table,
                         const Fill& fill)
    : tree_(&tree),
      table_(&table),
      load_ns_(tree.num_nodes(), 0),
      below_ns_(tree.num_nodes(), 0),
      samples_(tree.num_nodes()),
      bins_of_node_(tree.num_nodes()),
      bin_of_(table.num_samples(), -1),
      position_(table.num_samples(), 0) {
  bins_.reserve(fill.bin_node.size());
  for (int node : fill.bin_node) {
    OpenBin(node);
    load_ns_[node] += FixedNs(node);
  }
  for (int sample = 0; sample < table.num_samples(); ++sample) {
    PutInBin(fill.bin_of[sample], sample);
    const int node = bins_[fill.bin_of[sample]].node;
    load_ns_[node] += SampleNs(node, sample);
  }
  // Children come after parents.
  for (int node = tree.num_nodes() - 1; node > BlockTree::kRoot; --node) {
    int64_t& above_ns = below_ns_[tree.parent(node)];
    above_ns = std::max(above_ns, load_ns_[node] + below_ns_[node]);
  }
}

int64_t TreePacking::AddingNs(int node, int sample) const {
  const bool joins = FindBin(node, Tokens(node, sample)) >= 0;
  return SampleNs(node, sample) + (joins ? 0 : FixedNs(node));
}

int64_t TreePacking::RemovingNs(int sample) const {
  const Bin& bin = bins_[bin_of_[sample]];
  return SampleNs(bin.node, sample) +
         (bin.num_samples == 1 ? FixedNs(bin.node) : 0);
}

void TreePacking::Add(int node, int sample) {
  int64_t delta_ns = SampleNs(node, sample);
  int bin = FindBin(node, Tokens(node, sample));
  if (bin < 0) {
    bin = OpenBin(node);
    delta_ns += FixedNs(node);
  }
  PutInBin(bin, sample);
  ChangeLoad(node, delta_ns);
}

void TreePacking::Remove(int sample) {
  const int64_t delta_ns = RemovingNs(sample);
  const int bin = bin_of_[sample];
  const int node = bins_[bin].node;
  TakeFromBin(sample);
  if (bins_[bin].num_samples == 0) CloseBin(bin);
  ChangeLoad(node, -delta_ns);
}

bool TreePacking::CanSwap(int a, int b) const {
  const Bin& bin_a = bins_[bin_of_[a]];
  const Bin& bin_b = bins_[bin_of_[b]];
  return bin_b.room_tokens >= Tokens(bin_b.node, a) - Tokens(bin_b.node, b) &&
         bin_a.room_tokens >= Tokens(bin_a.node, b) - Tokens(bin_a.node, a);
}

void TreePacking::Swap(int a, int b) {
  const int bin_a = bin_of_[a];
  const int bin_b = bin_of_[b];
  const int node_a = bins_[bin_a].node;
  const int node_b = bins_[bin_b].node;
  TakeFromBin(a);
  TakeFromBin(b);
  PutInBin(bin_b, a);
  PutInBin(bin_a, b);
  ChangeLoad(node_a, SampleNs(node_a, b) - SampleNs(node_a, a));
  ChangeLoad(node_b, SampleNs(node_b, a) - SampleNs(node_b, b));
}

int TreePacking::FindBin(int node, int64_t tokens) const {
  const auto& bins = bins_of_node_[node];
  const int last = static_cast<int>(bins.size());
  int best = -1;
  for (int k = std::max(0, last - kMaxBinsTried); k < last; ++k) {
    const int64_t room = bins_[bins[k]].room_tokens;
    if (room < tokens) continue;
    if (best < 0 || room < bins_[best].room_tokens) best = bins[k];
  }
  return best;
}

int TreePacking::OpenBin(int node) {
  int bin = static_cast<int>(bins_.size());
  if (free_bins_.empty()) {
    bins_.emplace_back();
  } else {
    bin = free_bins_.back();
    free_bins_.pop_back();
  }
  bins_[bin] = {node, 0, table_->capacity_tokens(tree_->level(node))};
  bins_of_node_[node].push_back(bin);
  return bin;
}

void TreePacking::CloseBin(int bin) {
  auto& bins = bins_of_node_[bins_[bin].node];
  bins.erase(std::find(bins.begin(), bins.end(), bin));
  free_bins_.push_back(bin);
}

void TreePacking::PutInBin(int bin, int sample) {
  bins_[bin].room_tokens -= Tokens(bins_[bin].node, sample);
  ++bins_[bin].num_samples;
  bin_of_[sample] = bin;
  auto& samples = samples_[bins_[bin].node];
  position_[sample] = static_cast<int>(samples.size());
  samples.push_back(sample);
}

void TreePacking::TakeFromBin(int sample) {
  Bin& bin = bins_[bin_of_[sample]];
  bin.room_tokens += Tokens(bin.node, sample);
  --bin.num_samples;
  bin_of_[sample] = -1;
  auto& samples = samples_[bin.node];
  samples[position_[sample]] = samples.back();
  position_[samples.back()] = position_[sample];
  samples.pop_back();
}

void TreePacking::ChangeLoad(int node, int64_t delta_ns) {
  load_ns_[node] += delta_ns;
  for (int up = tree_->parent(node); up >= 0; up = tree_->parent(up)) {
    int64_t below_ns = 0;
    for (int child : tree_->children(up)) {
      below_ns = std::max(below_ns, load_ns_[child] + below_ns_[child]);
    }
    if (below_ns == below_ns_[up]) return;
    below_ns_[up] = below_ns;
  }
}

std::vector<Placement> TreePacking::ToPlacements() const {
  std::vector<std::vector<int>> samples(bins_.size());
  for (int sample = 0; sample < num_samples(); ++sample) {
    samples[bin_of_[sample]].push_back(table_->request_index(sample));
  }
  std::vector<Placement> placements;
  for (int node = 1; node < tree_->num_nodes(); ++node) {
    for (int bin : bins_of_node_[node]) {
      std::sort(samples[bin].begin(), samples[bin].end());
      placements.push_back({tree_->block(node), std::move(samples[bin])});
    }
  }
  return placements;
}

}  // namespace evenstep::planner
