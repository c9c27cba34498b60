#include "planner/costs/cost_table.h"

#include <algorithm>
#include <numeric>

namespace evenstep::planner {
namespace {

constexpr int64_t kForever = INT64_MAX;
// Of a sample where it cannot run; sums of it still fit 63 bits.
constexpr int64_t kTooLongNs = int64_t{1} << 50;

}  // namespace

int64_t FastestBlockSpeed(const PlanRequest& request, const CostModel& costs,
                          const BlockClass& block_class) {
  if (request.cluster.rank_speed.empty()) return costs.BlockSpeed({0, 1});
  int64_t fastest = 0;
  for (const Block& block : BlocksOfClass(request, block_class)) {
    fastest = std::max(fastest, costs.BlockSpeed(block));
  }
  return fastest;
}

CostTable::CostTable(const PlanRequest& request, const CostModel& costs)
    : degrees_(BlockClasses(request)), modes_(RecomputeModes(request)) {
  const auto& samples = request.samples;
  order_.resize(samples.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::sort(order_.begin(), order_.end(), [&](int a, int b) {
    if (samples[a].length != samples[b].length) {
      return samples[a].length > samples[b].length;
    }
    return samples[a].id < samples[b].id;
  });
  // In order: every level reads them all.
  std::vector<Sample> sorted;
  sorted.reserve(samples.size());
  for (int index : order_) sorted.push_back(samples[index]);
  for (const Sample& sample : sorted) lengths_.push_back(sample.length);
  const size_t cells = num_levels() * samples.size();
  for (int mode = 0; mode < num_modes(); ++mode) {
    first_level_.insert(first_level_.end(), samples.size(), end_level(mode));
  }
  tokens_.resize(cells);
  capacity_tokens_.resize(num_levels());
  fixed_ns_.resize(num_levels());
  sample_ns_.resize(cells);
  rank_ns_.resize(cells);
  alone_ns_.resize(cells);
  for (int level = num_levels() - 1; level >= 0; --level) {
    FillLevel(request, sorted, costs.WithRecompute(recompute_layers(level)),
              level);
  }
  for (int i = 0; i < num_samples(); ++i) {
    cheapest_level_.push_back(FindBestLevel(i, INT64_MAX));
  }
}

void CostTable::FillLevel(const PlanRequest& request,
                          const std::vector<Sample>& sorted,
                          const CostModel& costs, int level) {
  const BlockClass& block_class = this->block_class(level);
  const int degree = block_class.degree;
  const int mode = level / num_degrees();
  const SequenceSplit split = SplitFor(request.model, degree);
  const int64_t tokens_per_rank = TokensPerRank(request, modes_[mode], degree);
  const int64_t fixed_ns = costs.FixedNs(block_class);
  const int64_t speed = FastestBlockSpeed(request, costs, block_class);
  capacity_tokens_[level] = tokens_per_rank * degree;
  fixed_ns_[level] = fixed_ns;
  for (int i = 0; i < num_samples(); ++i) {
    const size_t cell = level * order_.size() + i;
    const Sample& sample = sorted[i];
    if (!CanShare(split, sample)) {
      tokens_[cell] = kNoRoom;
      sample_ns_[cell] = kTooLongNs;
      rank_ns_[cell] = alone_ns_[cell] = kForever;
      continue;
    }
    const BatchSize size = SizeOf(request.model, split, sample);
    tokens_[cell] = size.tokens;
    if (Allows(level, i)) first_level_[mode * order_.size() + i] = level;
    sample_ns_[cell] = costs.SampleNs(block_class, size);
    const int128 share = int128{fixed_ns} * size.tokens;
    rank_ns_[cell] =
        degree * sample_ns_[cell] +
        static_cast<int64_t>(share / std::max<int64_t>(1, tokens_per_rank));
    alone_ns_[cell] = CostModel::AtSpeed(fixed_ns + sample_ns_[cell], speed);
  }
}

int CostTable::BestLevel(int i, int64_t limit_ns) const {
  const int cheapest = cheapest_level_[i];
  if (cheapest < 0 || alone_ns(cheapest, i) <= limit_ns) return cheapest;
  return FindBestLevel(i, limit_ns);
}

int CostTable::FindBestLevel(int i, int64_t limit_ns) const {
  int best = -1;
  for (int mode = 0; mode < num_modes(); ++mode) {
    for (int level = first_level(i, mode); level < end_level(mode); ++level) {
      if (!Allows(level, i) || alone_ns(level, i) > limit_ns) continue;
      if (best < 0 || rank_ns(level, i) < rank_ns(best, i)) best = level;
    }
  }
  return best;
}

}  // namespace evenstep::planner
