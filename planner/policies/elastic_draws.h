#ifndef EVENSTEP_PLANNER_POLICIES_ELASTIC_DRAWS_H_
#define EVENSTEP_PLANNER_POLICIES_ELASTIC_DRAWS_H_

// The random numbers of one elastic step (elastic.h): the n-th is a hash of
// (seed, step, n), so that no two steps, of one seed or of neighbouring ones,
// see parts of the same stream. One owner; not safe to share between threads.

#include <cstdint>

#include "base/counter_random.h"

namespace evenstep::planner {

class ElasticDraws {
 public:
  ElasticDraws(uint64_t seed, int64_t step)
      : random_(seed), step_(static_cast<uint64_t>(step)) {}

  // In [0, bound); bound is at least 1.
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(random_.Bits(step_, num_drawn_++) %
                                static_cast<uint64_t>(bound));
  }

 private:
  CounterRandom random_;
  uint64_t step_;
  uint64_t num_drawn_ = 0;
};

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_POLICIES_ELASTIC_DRAWS_H_
