#ifndef EVENSTEP_PLANNER_COSTS_MEMORY_MODEL_H_
#define EVENSTEP_PLANNER_COSTS_MEMORY_MODEL_H_

// What a rank can hold: activations of a micro-batch by recompute and degree,
// and the states beside them (formula: MemoryModel in model.h). Used by every
// policy, by submit time checks, and to make memory models. Stateless.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "planner/request.h"

namespace evenstep::planner {

// Numbers of recomputed layers that a plan may use, ascending: the choices and
// options.recompute_layers.
std::vector<LayerCounts> RecomputeModes(const PlanRequest& request);

// Whether the request says what a token takes; if not, no bytes are predicted.
bool KnowsBytes(const PlanRequest& request);

// The most that a rank holds at once for each of its own tokens, by the formula
// of MemoryModel. At least 1.
int64_t BytesPerToken(const PlanRequest& request, const LayerCounts& recompute,
                      int degree);

// Of a micro-batch of so many padded tokens. 0: not known.
int64_t PredictBytes(const PlanRequest& request, const LayerCounts& recompute,
                     int degree, int64_t padded_tokens);

// Own tokens that a rank can hold; at most kMaxTokensPerRank. Wider degrees
// hold fewer under kv_gather and where K/V heads are copied; none holds more
// than degree 1.
int64_t TokensPerRank(const PlanRequest& request, const LayerCounts& recompute,
                      int degree = 1);
// The most over all modes.
int64_t MostTokensPerRank(const PlanRequest& request);

// How parameters, gradients and optimizer states lie on the ranks.
enum class StateLayout {
  kReplicatedFloat32,  // parameter, gradient, two moments
  // ZeRO-1, with the copy to roll back to and `replicas` further owners of
  // every shard: parameter and gradient whole, master weight (bf16), moments
  // and copy sharded.
  kZero1Float32,
  kZero1Bfloat16,  // gradients are summed in float32
};

// Bytes that a rank holds for each parameter of the model, rounded up.
int64_t StateBytesPerParameter(StateLayout layout, int num_ranks, int replicas);

// What the memory of a model may follow from.
struct DeviceMemory {
  int64_t device_bytes = 0;
  double margin = 0;
  int64_t parameters = 0;
  StateLayout states = StateLayout::kReplicatedFloat32;
  int states_over_ranks = 1;
  int shard_replicas = 0;
};

// Sets memory.activation_bytes from `device`, if that is how memory is stated.
// INVALID_ARGUMENT if it is stated in none or several of the three ways, or if
// nothing is left.
absl::Status DeriveMemory(const DeviceMemory& device, MemoryModel* memory);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_COSTS_MEMORY_MODEL_H_
