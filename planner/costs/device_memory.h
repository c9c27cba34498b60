#ifndef EVENSTEP_PLANNER_COSTS_DEVICE_MEMORY_H_
#define EVENSTEP_PLANNER_COSTS_DEVICE_MEMORY_H_

// What a device leaves for activations: its bytes less a margin and the states
// of the model's parameters. How a cost file may state memory (cost_file.h).
// Stateless.

#include <cstdint>

#include "absl/status/status.h"
#include "planner/costs/memory_model.h"
#include "planner/request.h"

namespace evenstep::planner {

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

#endif  // EVENSTEP_PLANNER_COSTS_DEVICE_MEMORY_H_
