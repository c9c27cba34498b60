#include "planner/slow_ranks.h"

#include <algorithm>

namespace evenstep::planner {
namespace {

constexpr double kSlow = 0.95;       // of the median
constexpr int kMaxShareDivisor = 4;  // of all ranks

bool IsFree(const std::vector<char>& taken, int first_rank, int degree) {
  const auto first = taken.begin() + first_rank;
  return std::find(first, first + degree, 1) == first + degree;
}

}  // namespace

SlowRanks FindSlowRanks(const Cluster& cluster) {
  SlowRanks slow;
  slow.is_slow.assign(cluster.num_ranks(), 0);
  if (cluster.rank_speed.empty()) return slow;
  std::vector<double> sorted = cluster.rank_speed;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[sorted.size() / 2];
  const auto end =
      std::lower_bound(sorted.begin(), sorted.end(), kSlow * median);
  const auto count = static_cast<int>(end - sorted.begin());
  if (count == 0 || count > cluster.num_ranks() / kMaxShareDivisor) return slow;
  slow.count = count;
  slow.slowest_speed = sorted[0] / median;
  for (int rank = 0; rank < cluster.num_ranks(); ++rank) {
    slow.is_slow[rank] = cluster.rank_speed[rank] < kSlow * median ? 1 : 0;
  }
  return slow;
}

std::vector<Block> BlocksAround(const SlowRanks& slow,
                                const std::vector<int>& degrees,
                                BlockShape shape) {
  std::vector<char> taken = slow.is_slow;
  const auto num_ranks = static_cast<int>(taken.size());
  std::vector<Block> blocks;
  for (int degree : degrees) {
    const int step = shape == BlockShape::kAligned ? degree : 1;
    int first = 0;
    while (first + degree <= num_ranks && !IsFree(taken, first, degree)) {
      first += step;
    }
    if (first + degree > num_ranks) return {};
    std::fill_n(taken.begin() + first, degree, 1);
    blocks.push_back({first, degree});
  }
  return blocks;
}

}  // namespace evenstep::planner
