#ifndef EVENSTEP_WORKER_TRAINER_PROFILE_ACTIVATION_MEMORY_H_
#define EVENSTEP_WORKER_TRAINER_PROFILE_ACTIVATION_MEMORY_H_

// From measured bytes to a model of a rank's activations: pure arithmetic. The
// most is held either when backward begins, with every layer that keeps its
// activations and the head, or while the last recomputed layer runs again, when
// all those are gone. With n of L layers recomputed, for each own token:
//   max((L - n) layer + n kept + head,  n > 0 ? n kept + redone : 0)
// Constants hold for one model at one degree: exchanges hold copies, and the
// attention kernel has a workspace that does not shrink with the shard.

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace evenstep::trainer {

// Bytes per own token.
struct ActivationMemory {
  double layer = 0;   // of a layer that is not recomputed
  double kept = 0;    // input of a recomputed layer
  double head = 0;    // logits, their gradient, and what no layer holds
  double redone = 0;  // of a recomputed layer while its backward runs
};

// The most that tensors held in one forward and backward of a rank.
struct MemoryPoint {
  int64_t own_tokens = 0;
  int recompute_layers = 0;
  int64_t bytes = 0;
};

// `kept` is what the shape says: width times bytes per element. The others by
// least squares of relative errors, `redone` as the middle of what was seen.
// INVALID_ARGUMENT: less than two numbers of recomputed layers of at most half,
// or none with all of them.
absl::StatusOr<ActivationMemory> FitActivationMemory(
    absl::Span<const MemoryPoint> points, int layers, double kept);

int64_t PredictActivationBytes(const ActivationMemory& memory, int layers,
                               int recompute_layers, int64_t own_tokens);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PROFILE_ACTIVATION_MEMORY_H_
