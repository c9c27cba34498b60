#ifndef EVENSTEP_WORKER_TRAINER_MODEL_DEVICE_KERNELS_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_DEVICE_KERNELS_H_

// What kernels.h and attention_block.h do by loops over host memory, as
// compositions of torch's operators, for tensors on another device. They run on
// the CPU as well, where tests compare them with the loops. Pure functions.
// Shapes as in kernels.h and attention_block.h.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/trainer/model/attention_block.h"
#include "worker/trainer/model/kernels.h"

namespace evenstep::trainer {

// Differentiable.
at::Tensor RmsNormByOps(const at::Tensor& x_TW, const at::Tensor& weight_W,
                        double epsilon);
at::Tensor RotateByOps(const at::Tensor& x_TND, const RotaryTable& table);

// Scores of the whole block stand in memory at once.
AttentionBlock AttendBlockByOps(const at::Tensor& q_LHD,
                                const at::Tensor& k_SGD,
                                const at::Tensor& v_SGD, AttentionMask mask);
AttentionBlockGradient AttendBlockBackwardByOps(const at::Tensor& dout_LHD,
                                                const at::Tensor& q_LHD,
                                                const at::Tensor& k_SGD,
                                                const at::Tensor& v_SGD,
                                                const AttentionBlock& whole,
                                                AttentionMask mask);

// Whether FlashVarlenAttention takes such tensors: bfloat16 or half on CUDA.
bool HasFlashVarlenAttention(const at::Tensor& q_SHD);
// Attention within each document by ATen's flash attention, which takes the
// documents' bounds and grouped heads as they are. Differentiable. Rows after
// the last document are zero.
at::Tensor FlashVarlenAttention(const at::Tensor& q_SHD,
                                const at::Tensor& k_SGD,
                                const at::Tensor& v_SGD,
                                const std::vector<int64_t>& lengths,
                                AttentionMask mask);

// Of a dense tensor on any device.
int64_t CountNotFiniteByOps(const at::Tensor& values);
double SquareSumByOps(const at::Tensor& values);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_DEVICE_KERNELS_H_
