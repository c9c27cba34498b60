#ifndef EVENSTEP_WORKER_TRAINER_MODEL_DEVICE_KERNELS_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_DEVICE_KERNELS_H_

// What kernels.h and attention_block.h do by loops over host memory, as
// compositions of torch's operators, for tensors on another device. They run on
// the CPU as well, where tests compare them with the loops. Pure functions.
// Shapes as in kernels.h and attention_block.h.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "evenstep/trainer/kernels.h"
#include "worker/trainer/model/attention_block.h"

namespace evenstep::trainer {

// Differentiable but for the table, which is in `type`.
RotaryTable MakeRotaryTableByOps(const at::Tensor& positions_T, int64_t dim,
                                 double theta, at::ScalarType type);
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

// Whether ATen's flash attention takes such tensors: bfloat16 or half on CUDA,
// heads of a dimension that is a multiple of 8 and at most 256. It takes
// grouped heads as they are, and scores never stand in memory.
bool HasFlashAttention(const at::Tensor& q_SHD);

// Where documents end, for every layer of a micro-batch.
struct DocumentBounds {
  at::Tensor bounds;  // int32 on the device: 0, and the end of each document
  int64_t used = 0;
  int64_t longest = 0;
};
DocumentBounds MakeDocumentBounds(const std::vector<int64_t>& lengths,
                                  at::Device device);

// Attention within each document, all in one call. Differentiable. Rows after
// the last document are zero.
at::Tensor FlashVarlenAttention(const at::Tensor& q_SHD,
                                const at::Tensor& k_SGD,
                                const at::Tensor& v_SGD,
                                const DocumentBounds& documents,
                                AttentionMask mask);
// One block, as AttendBlock and AttendBlockBackward.
AttentionBlock FlashAttendBlock(const at::Tensor& q_LHD,
                                const at::Tensor& k_SGD,
                                const at::Tensor& v_SGD, AttentionMask mask);
AttentionBlockGradient FlashAttendBlockBackward(const at::Tensor& dout_LHD,
                                                const at::Tensor& q_LHD,
                                                const at::Tensor& k_SGD,
                                                const at::Tensor& v_SGD,
                                                const AttentionBlock& whole,
                                                AttentionMask mask);

// Of a dense tensor on any device, with little memory beside it.
int64_t CountNotFiniteByOps(const at::Tensor& values);
// [1], float64, on the tensor's device.
at::Tensor SquareSumByOps(const at::Tensor& values);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_DEVICE_KERNELS_H_
