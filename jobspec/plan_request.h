#ifndef EVENSTEP_JOBSPEC_PLAN_REQUEST_H_
#define EVENSTEP_JOBSPEC_PLAN_REQUEST_H_

// A job as the planner sees it: the request that is the same for every step,
// and in it the memory that the job's model takes.
//
// Memory is what the model holds for each of a rank's own tokens, counted from
// its shape: the tensors that forward leaves for backward, and the gradients of
// one layer. No constant is fitted; tests in worker/trainer compare it with
// what its tensors take. A profile shows it beside what it measures. Pure.

#include <cstdint>

#include "absl/status/status.h"
#include "jobspec/job_spec.h"
#include "planner/request.h"

namespace evenstep::jobspec {

// Of parameters and of what layers compute.
int64_t BytesPerElement(Precision precision);

// Of gate and up: 8/3 of the width, rounded up to a multiple of 32.
int DecoderMlpWidth(int width);
// Of a text model: its own, or that one.
int MlpWidthOf(const ModelSpec& model);

// Bytes by token of everything but tokens_per_rank and activation_bytes. None
// of a model by a name: its layers are not known.
planner::MemoryModel ModelMemory(const ModelSpec& model, Precision precision);

// The decoder's. Of a layer, in elements: input, both normed inputs, queries,
// attention's output, that output back on its own tokens (a copy at degrees
// above 1, and counted at 1 too), and the middle: 7 widths; keys and values,
// and those of one head more for each copy that a degree makes; gate, its
// activation, up and their product: 4 widths of the MLP.
planner::MemoryModel DecoderMemory(const ModelSpec& model, Precision precision);

// The diffusion Transformer's; spatial and temporal layers hold the same. Of a
// layer, in elements: its tokens in its own order, both norms' outputs and what
// modulation makes of them, queries, keys, values, attention's output, that
// output joined again (a copy for several clips and where heads are exchanged,
// and counted elsewhere too), its projection, the middle, and the MLP's output:
// 13 widths; gate, its activation, up and their product: 4 widths of the MLP.
// For the whole pass, whatever runs: inputs, targets, places and angles of the
// tokens. That is a part of the head and of what is kept beside a layer that
// goes backward.
planner::MemoryModel VideoMemory(const ModelSpec& model, Precision precision);

// All of a job that its plans depend on and that is the same for every step:
// model, memory, options and facts of the run. Without costs.
planner::PlanRequest ToPlanRequest(const JobSpec& spec);

// Whether max_length fits ranks x tokens per rank at a legal degree:
// FAILED_PRECONDITION with the numbers and what would make it fit.
absl::Status CheckJobFits(const JobSpec& spec);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_PLAN_REQUEST_H_
