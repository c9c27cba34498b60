#ifndef EVENSTEP_WORKER_TRAINER_OPTIM_UPDATE_BY_OPS_H_
#define EVENSTEP_WORKER_TRAINER_OPTIM_UPDATE_BY_OPS_H_

// One update of AdamW as torch operators, for tensors on a device; adamw.cc has
// the loop for the host. Pure but for what is updated in place.

#include <ATen/core/Tensor.h>

namespace evenstep::trainer {

// What one update of one parameter needs beside its tensors.
struct UpdateFactors {
  double gradient_scale = 1;  // of clipping
  double beta1 = 0;
  double beta2 = 0;
  double decay = 1;              // 1 - lr * weight decay
  double step_size = 0;          // lr / (1 - beta1^t)
  double square_correction = 1;  // 1 / (1 - beta2^t)
  double epsilon = 0;
};

// All four of the same shape, type and device.
void UpdateByOps(const UpdateFactors& factors, const at::Tensor& gradient,
                 const at::Tensor& mean, const at::Tensor& square,
                 const at::Tensor& value);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_OPTIM_UPDATE_BY_OPS_H_
