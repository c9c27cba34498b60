#ifndef EVENSTEP_WORKER_TRAINER_MODEL_ATTENTION_BLOCK_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_ATTENTION_BLOCK_H_

// One fused attention call over a block of queries and a block of keys, and the
// sum of such calls. Softmax over keys that come in parts is exact when the
// parts are merged by their log-sum-exp (Dao et al., 2022): parallel/ builds
// causal attention over shards of it. A causal block has as many queries as
// keys, since kernels differ in what the mask means otherwise. Pure functions,
// without autograd: forward and backward are called by custom functions.
//
// Shapes: L queries, S keys, H query heads, G key and value heads (H a multiple
// of G), D dimension of a head; scale 1 / sqrt(D). "Rows" are [tokens, N, D].

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "evenstep/trainer/model.h"

namespace evenstep::trainer {

struct AttentionBlock {
  at::Tensor out_LHD;
  at::Tensor lse_1HL;  // natural logarithm of the sum of exponentials
};

AttentionBlock AttendBlock(const at::Tensor& q_LHD, const at::Tensor& k_SGD,
                           const at::Tensor& v_SGD, AttentionMask mask);

// The same queries over the keys of `a` and of `b` together.
AttentionBlock MergeBlocks(const AttentionBlock& a, const AttentionBlock& b);

struct AttentionBlockGradient {
  at::Tensor dq_LHD;
  at::Tensor dk_SGD;
  at::Tensor dv_SGD;
};

// What one block contributes. `whole` is the merged result over all blocks of
// these queries, `dout_LHD` its gradient.
AttentionBlockGradient AttendBlockBackward(const at::Tensor& dout_LHD,
                                           const at::Tensor& q_LHD,
                                           const at::Tensor& k_SGD,
                                           const at::Tensor& v_SGD,
                                           const AttentionBlock& whole,
                                           AttentionMask mask);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_ATTENTION_BLOCK_H_
