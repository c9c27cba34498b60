#ifndef EVENSTEP_WORKER_TRAINER_MODEL_KERNELS_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_KERNELS_H_

// Element-wise parts of the decoder. Norm and rotation take one pass over
// memory forward and one backward; composed of torch's own operations they take
// five to ten. CPU; float32, float64, or bfloat16, which is computed in
// float32; differentiable. Pure functions.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace evenstep::trainer {

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
RotaryTable MakeRotaryTable(const at::Tensor& positions_T, int64_t dim,
                            double theta, at::ScalarType dtype);

// Rotates pairs (i, i + D / 2) of every head of x [T, N, D], as Llama does.
at::Tensor Rotate(const at::Tensor& x_TND, const RotaryTable& table);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_KERNELS_H_
