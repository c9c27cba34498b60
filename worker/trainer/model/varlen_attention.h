#ifndef EVENSTEP_WORKER_TRAINER_MODEL_VARLEN_ATTENTION_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_VARLEN_ATTENTION_H_

// Attention over documents that are packed end to end: each document attends
// within itself only. One fused attention call per document, results written
// side by side. Pure functions.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "evenstep/trainer/model.h"

namespace evenstep::trainer {

// S tokens, H query heads, G key and value heads (H a multiple of G), D
// dimension of a head; scale 1 / sqrt(D). `lengths` sum to at most S; tokens
// after them are padding: they see nothing, and their output is 0.
// Differentiable in q, k and v, whose last dimension is dense.
at::Tensor VarlenAttention(const at::Tensor& q_SHD, const at::Tensor& k_SGD,
                           const at::Tensor& v_SGD,
                           const std::vector<int64_t>& lengths,
                           AttentionMask mask);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_VARLEN_ATTENTION_H_
