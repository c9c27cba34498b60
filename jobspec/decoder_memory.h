#ifndef EVENSTEP_JOBSPEC_DECODER_MEMORY_H_
#define EVENSTEP_JOBSPEC_DECODER_MEMORY_H_

// What the trainer's decoder holds for each of a rank's own tokens, counted
// from its shape: the tensors that forward leaves for backward, and the
// gradients of one layer. No constant is fitted; a test in worker/trainer
// compares it with what its tensors take. Pure.
//
// Of a layer, in elements: input, both normed inputs, queries, attention's
// output, that output back on its own tokens (a copy at degrees above 1, and
// counted at 1 too), and the middle: 7 widths; keys and values, and those of
// one head more for each copy that a degree makes; gate, its activation, up and
// their product: 4 widths of the MLP.

#include <cstdint>

#include "jobspec/job_spec.h"
#include "planner/request.h"

namespace evenstep::jobspec {

// Of parameters and of what layers compute.
int64_t BytesPerElement(Precision precision);

// Of gate and up: 8/3 of the width, rounded up to a multiple of 32.
int DecoderMlpWidth(int width);
// Of a text model: its own, or that one.
int MlpWidthOf(const ModelSpec& model);

// Bytes by token of everything but tokens_per_rank and activation_bytes.
planner::MemoryModel DecoderMemory(const ModelSpec& model, Precision precision);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_DECODER_MEMORY_H_
