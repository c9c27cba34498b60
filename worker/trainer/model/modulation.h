#ifndef EVENSTEP_WORKER_TRAINER_MODEL_MODULATION_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_MODULATION_H_

// How a condition, such as the timestep of a clip, changes the tokens that it
// belongs to (adaptive norm; Peebles and Xie, 2023). On CPU in float32 and
// float64 one pass over memory each way; otherwise composed of torch's
// operators. Neither keeps a copy of the condition for every token.
// Differentiable. Pure functions.
//
// Shapes: T tokens, W width, R conditions; condition_T says which is a token's.

#include <ATen/core/Tensor.h>

namespace evenstep::trainer {

// x * (1 + scale) + shift.
at::Tensor Modulate(const at::Tensor& x_TW, const at::Tensor& scale_RW,
                    const at::Tensor& shift_RW, const at::Tensor& condition_T);

// x + gate * y.
at::Tensor GatedAdd(const at::Tensor& x_TW, const at::Tensor& y_TW,
                    const at::Tensor& gate_RW, const at::Tensor& condition_T);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_MODULATION_H_
