#ifndef EVENSTEP_PLANNER_ROUNDS_SLOW_RANKS_H_
#define EVENSTEP_PLANNER_ROUNDS_SLOW_RANKS_H_

// The few ranks that are clearly slower than the others. Under per_round a slow
// rank holds everyone up in every round in which it has a full share, so that
// letting it idle may cost less. Stateless.

#include <cstdint>
#include <vector>

#include "planner/costs/degrees.h"
#include "planner/request.h"

namespace evenstep::planner {

struct SlowRanks {
  std::vector<char> is_slow;  // by rank
  int count = 0;
  int64_t slowest_speed = 1;  // as CostModel::BlockSpeed
  int64_t median_speed = 1;
};

// Ranks at less than 95 % of the median speed; none if that is more than a
// quarter of all, for then there is little to plan with but them.
SlowRanks FindSlowRanks(const Cluster& cluster);

// What takes `nominal_ns` on a median rank, on the slowest; at most kMaxRankNs.
int64_t HeldUpNs(const SlowRanks& slow, int64_t nominal_ns);

// One block for each degree (descending), none over a slow rank; empty if there
// is no room.
std::vector<Block> BlocksAround(const SlowRanks& slow,
                                const std::vector<int>& degrees,
                                BlockShape shape);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_ROUNDS_SLOW_RANKS_H_
