#ifndef EVENSTEP_WORKER_TRAINER_OPTIM_SHARDING_H_
#define EVENSTEP_WORKER_TRAINER_OPTIM_SHARDING_H_

// How optimizer states are split over ranks. All parameters, laid end to end in
// their order, are cut into one run of elements a rank, whatever the borders of
// tensors: so shares are equal to one element. Pure functions.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace evenstep::trainer {

enum class Sharding {
  kNone,   // every rank holds all states and makes the same update
  kZero1,  // a rank updates its run, then parameters are gathered
};

struct ElementRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

// Rank's run of `elements`; the first ones are one longer where it must be.
inline ElementRange ShardOf(int64_t elements, int world, int rank) {
  const int64_t least = elements / world;
  const int64_t longer = elements % world;
  const int64_t begin = rank * least + std::min<int64_t>(rank, longer);
  return {begin, begin + least + (rank < longer ? 1 : 0)};
}

// Elements of each rank, times `scale`.
inline std::vector<int64_t> ShardCounts(int64_t elements, int world,
                                        int64_t scale) {
  std::vector<int64_t> counts;
  for (int rank = 0; rank < world; ++rank) {
    counts.push_back(ShardOf(elements, world, rank).size() * scale);
  }
  return counts;
}

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_OPTIM_SHARDING_H_
