#ifndef EVENSTEP_WORKER_TRAINER_TESTING_MEASURE_MEMORY_H_
#define EVENSTEP_WORKER_TRAINER_TESTING_MEASURE_MEMORY_H_

// Bytes and CPU time of one micro-batch on ranks that are threads, each with an
// account of its own. For tests; their binaries call CountTensorBytes before
// any tensor is made.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "data/clip.h"
#include "planner/request.h"
#include "worker/trainer/model/decoder.h"
#include "worker/trainer/model/diffusion_transformer.h"

namespace evenstep::trainer::testing {

// One document, shared by `degree` ranks.
struct MemoryCase {
  int64_t length = 0;
  int degree = 1;
  int recompute_layers = 0;
  // Ranks that share by heads, the others by gathered keys and values; 0: all.
  int ulysses_degree = 0;
};

struct MemoryUse {
  int64_t bytes = 0;  // of the rank that held most
  int64_t own_tokens = 0;
  double cpu_seconds = 0;  // of that rank
};

absl::StatusOr<MemoryUse> MeasureMemory(const DecoderConfig& config,
                                        const MemoryCase& what);

// Clips of one micro-batch, shared by `degree` ranks.
struct ClipMemoryCase {
  std::vector<data::ClipShape> shapes;
  int degree = 1;
  planner::LayerCounts recompute_layers = {};
  planner::SpMode sp_mode = planner::SpMode::kSwitch;  // or kUlysses
};

absl::StatusOr<MemoryUse> MeasureMemory(
    const DiffusionTransformerConfig& config, const ClipMemoryCase& what);

}  // namespace evenstep::trainer::testing

#endif  // EVENSTEP_WORKER_TRAINER_TESTING_MEASURE_MEMORY_H_
