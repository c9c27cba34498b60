#ifndef EVENSTEP_TRAINER_KERNELS_H_
#define EVENSTEP_TRAINER_KERNELS_H_

// Parts of the decoder beside attention and matrices. On the CPU norm and
// rotation take one pass over memory forward and one backward; composed of
// torch's own operations they take five to ten. On a device they are composed
// of operations. All tensors of a call are on one device, in float32, float64,
// or bfloat16, which is computed in float32; differentiable. Pure functions.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace evenstep::trainer {

// Rows of the weight, [V, W], by token: [T] to [T, W]. The weight's gradient is
// summed in float32 under bfloat16: a token that comes often adds up many small
// parts.
at::Tensor Embed(const at::Tensor& weight_VW, const at::Tensor& tokens_T);

// x / sqrt(mean(x^2) + epsilon) * weight over the last dimension (Zhang and
// Sennrich, 2019). Shapes [T, W] and [W].
at::Tensor RmsNorm(const at::Tensor& x_TW, const at::Tensor& weight_W,
                   double epsilon);

// silu(gate) * up (Shazeer, 2020).
at::Tensor SwiGlu(const at::Tensor& gate_TM, const at::Tensor& up_TM);

// Cosines and sines of each token's angles, [T, D / 2].
struct RotaryTable {
  at::Tensor cos;
  at::Tensor sin;
};

// Angle i of position p is p * theta^(-2 i / D) (Su et al., 2021). `dim` is D.
// On the device of the positions; not differentiable.
RotaryTable MakeRotaryTable(const at::Tensor& positions_T, int64_t dim,
                            double theta, at::ScalarType dtype);

// Rotates pairs (i, i + D / 2) of every head of x [T, N, D], as Llama does.
at::Tensor Rotate(const at::Tensor& x_TND, const RotaryTable& table);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_TRAINER_KERNELS_H_
