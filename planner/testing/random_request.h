#ifndef EVENSTEP_PLANNER_TESTING_RANDOM_REQUEST_H_
#define EVENSTEP_PLANNER_TESTING_RANDOM_REQUEST_H_

// Random valid requests of every kind for property tests: world sizes that are
// and are not powers of two, uneven nodes, slow ranks, odd head counts, free
// and dear communication, samples of one token and at the edge of memory. The
// same seed gives the same request on every machine. Some have no plan.

#include <cstdint>
#include <vector>

#include "planner/request.h"

namespace evenstep::planner::testing {

struct RequestLimits {
  int max_ranks = 16;
  int max_samples = 60;
};

PlanRequest RandomRequest(uint64_t seed, const RequestLimits& limits);

// The same request with memory in bytes, of which tokens_per_rank take all with
// nothing recomputed, and recompute left to the planner: none, half, all.
PlanRequest WithRecomputeChoices(PlanRequest request);

// The same request with modes of sequence parallelism drawn, a cost for gathers
// and for crossing nodes, a head, and attention that sharding does not divide.
PlanRequest WithSpModes(PlanRequest request, uint64_t seed);

// The same cluster and options with a video model and as many clips: single
// frames, odd shapes and long ones. Memory stays what it was.
PlanRequest AsVideo(PlanRequest request, uint64_t seed);

// The simplest request: one node, nominal speed, a power of two of heads, 1 ms
// a token, samples with ids from 0 and all tokens trained.
PlanRequest SimpleRequest(int num_ranks, int64_t tokens_per_rank,
                          const std::vector<int64_t>& lengths);

}  // namespace evenstep::planner::testing

#endif  // EVENSTEP_PLANNER_TESTING_RANDOM_REQUEST_H_
