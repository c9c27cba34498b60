#ifndef EVENSTEP_WORKER_TRAINER_MODEL_BATCHED_ATTENTION_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_BATCHED_ATTENTION_H_

// Full attention within many short sequences of one length, such as the frames
// of a clip: one fused call for all of them, where varlen_attention.h makes one
// for each. Pure functions.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace evenstep::trainer {

// `count` sequences of `length` tokens, end to end.
struct SequenceBatch {
  int64_t count = 0;
  int64_t length = 0;

  int64_t tokens() const { return count * length; }
};

// T tokens, H heads, D dimension of a head; scale 1 / sqrt(D). The batches lie
// end to end; tokens after them are padding, and their output is 0.
// Differentiable.
at::Tensor BatchedAttention(const at::Tensor& q_THD, const at::Tensor& k_THD,
                            const at::Tensor& v_THD,
                            const std::vector<SequenceBatch>& batches);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_BATCHED_ATTENTION_H_
