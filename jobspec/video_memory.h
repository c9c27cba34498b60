#ifndef EVENSTEP_JOBSPEC_VIDEO_MEMORY_H_
#define EVENSTEP_JOBSPEC_VIDEO_MEMORY_H_

// What the trainer's diffusion Transformer holds for each of a rank's own
// tokens, counted from its shape, as decoder_memory.h does for text. No
// constant is fitted; a test in worker/trainer compares it with what its
// tensors take. Spatial and temporal layers hold the same. Pure.
//
// Of a layer, in elements: its tokens in its own order, both norms' outputs and
// what modulation makes of them, queries, keys, values, attention's output,
// that output joined again (a copy for several clips and where heads are
// exchanged, and counted elsewhere too), its projection, the middle, and the
// MLP's output: 13 widths; gate, its activation, up and their product: 4 widths
// of the MLP. For the whole pass, whatever runs: inputs, targets, places and
// angles of the tokens. That is a part of the head and of what stands beside a
// layer that goes backward.

#include "jobspec/job_spec.h"
#include "planner/request.h"

namespace evenstep::jobspec {

// Bytes by token of everything but tokens_per_rank and activation_bytes.
planner::MemoryModel VideoMemory(const ModelSpec& model, Precision precision);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_VIDEO_MEMORY_H_
