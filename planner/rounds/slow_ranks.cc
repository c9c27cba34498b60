#include "planner/rounds/slow_ranks.h"

#include <algorithm>

#include "planner/costs/cost_model.h"
#include "planner/limits.h"

namespace evenstep::planner {
namespace {

constexpr int64_t kSlowPercent = 95;  // of the median
constexpr int kMaxShareDivisor = 4;   // of all ranks

bool IsSlow(int64_t speed, int64_t median) {
  return speed * 100 < median * kSlowPercent;
}

bool IsFree(const std::vector<char>& taken, int first_rank, int degree) {
  const auto first = taken.begin() + first_rank;
  return std::find(first, first + degree, 1) == first + degree;
}

}  // namespace

SlowRanks FindSlowRanks(const Cluster& cluster) {
  SlowRanks slow;
  slow.is_slow.assign(cluster.num_ranks(), 0);
  if (cluster.rank_speed.empty()) return slow;
  std::vector<int64_t> speeds;
  for (double speed : cluster.rank_speed) speeds.push_back(ToFixedSpeed(speed));
  std::vector<int64_t> sorted = speeds;
  std::sort(sorted.begin(), sorted.end());
  const int64_t median = sorted[sorted.size() / 2];
  const auto count = static_cast<int>(
      std::count_if(sorted.begin(), sorted.end(),
                    [&](int64_t speed) { return IsSlow(speed, median); }));
  if (count == 0 || count > cluster.num_ranks() / kMaxShareDivisor) return slow;
  slow.count = count;
  slow.slowest_speed = sorted[0];
  slow.median_speed = median;
  for (int rank = 0; rank < cluster.num_ranks(); ++rank) {
    slow.is_slow[rank] = IsSlow(speeds[rank], median) ? 1 : 0;
  }
  return slow;
}

int64_t HeldUpNs(const SlowRanks& slow, int64_t nominal_ns) {
  const int128 held_up_ns =
      int128{nominal_ns} * slow.median_speed / slow.slowest_speed;
  return held_up_ns < kMaxRankNs ? static_cast<int64_t>(held_up_ns)
                                 : kMaxRankNs;
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
