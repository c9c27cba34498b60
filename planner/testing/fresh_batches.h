#ifndef EVENSTEP_PLANNER_TESTING_FRESH_BATCHES_H_
#define EVENSTEP_PLANNER_TESTING_FRESH_BATCHES_H_

// Batches drawn anew from the laws behind the shared ones, so that figures do
// not rest on five batches: for benchmarks and tests. The same seed gives the
// same batch on every machine.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/request.h"

namespace evenstep::planner::testing {

enum class LengthLaw {
  kLognormal,  // median 1500, sigma 1.4, at most 115,072 tokens
  kWikipedia,  // lengths of articles, the law `wikipedia` of data/length_law.h
  kLognormal8  // median 800, sigma 1.2: for 8 ranks
};

// Multiples of 128.
absl::StatusOr<std::vector<int64_t>> DrawLengths(LengthLaw law, int num_samples,
                                                 uint64_t seed);

// The set-up of LoadSharedBatch: flexsp-7b-a100 with forced degrees, 20 ms a
// micro-batch under per_step; on `ranks_per_node`.
PlanRequest RequestFor(const std::vector<int64_t>& lengths,
                       const std::vector<int>& ranks_per_node,
                       int64_t tokens_per_rank, SyncMode sync,
                       BlockShape blocks = BlockShape::kAligned);

// 512 samples of a law under that set-up: 8 ranks with 12,935 tokens each for
// kLognormal8, else 64 ranks with 6,449.
absl::StatusOr<PlanRequest> FreshBatch(
    LengthLaw law, uint64_t seed, SyncMode sync,
    BlockShape blocks = BlockShape::kAligned);

}  // namespace evenstep::planner::testing

#endif  // EVENSTEP_PLANNER_TESTING_FRESH_BATCHES_H_
