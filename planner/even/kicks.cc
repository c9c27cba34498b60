#include "planner/even/kicks.h"

#include <algorithm>

#include "planner/even/local_search.h"

namespace evenstep::planner {
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
