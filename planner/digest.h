#ifndef EVENSTEP_PLANNER_DIGEST_H_
#define EVENSTEP_PLANNER_DIGEST_H_

// The name of a plan's content: FNV-1a, 64 bits, over canonical bytes. Ranks
// compare it at the gate; anyone who holds the micro-batches can compute it.
// Stateless.
//
// Canonical bytes: little-endian 64-bit integers: the number of micro-batches,
// then for each its first rank, degree, round, recomputed layers, padded
// tokens, number of samples, and the samples' ids in order; and if it is not
// plain (ulysses, no temporal layers recomputed) -1, mode of sequence
// parallelism (in the order of SpMode), ulysses degree and recomputed temporal
// layers. Predictions are left out: they change nothing that a rank does.

#include <cstdint>
#include <vector>

#include "planner/plan.h"
#include "planner/request.h"

namespace evenstep::planner {

class Fnv1a {
 public:
  void Add(int64_t value) {
    auto bits = static_cast<uint64_t>(value);
    for (int byte = 0; byte < 8; ++byte, bits >>= 8) {
      hash_ = (hash_ ^ (bits & 0xff)) * 0x100000001b3ULL;
    }
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325ULL;
};

// `samples` are those of the plan's request: micro-batches hold indices.
uint64_t PlanDigest(const std::vector<Sample>& samples,
                    const std::vector<MicroBatch>& micro_batches);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_DIGEST_H_
