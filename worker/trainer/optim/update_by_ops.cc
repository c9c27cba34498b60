#include "worker/trainer/optim/update_by_ops.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sqrt.h>

namespace evenstep::trainer {

void UpdateByOps(const UpdateFactors& factors, const at::Tensor& gradient,
                 const at::Tensor& mean, const at::Tensor& square,
                 const at::Tensor& value) {
  at::NoGradGuard without_graph;
  const at::Tensor g = at::mul(gradient, factors.gradient_scale);
  mean.mul_(factors.beta1).add_(g, 1.0 - factors.beta1);
  square.mul_(factors.beta2).addcmul_(g, g, 1.0 - factors.beta2);
  const at::Tensor root = at::sqrt(at::mul(square, factors.square_correction))
                              .add_(factors.epsilon);
  value.mul_(factors.decay).addcdiv_(mean, root, -factors.step_size);
}

}  // namespace evenstep::trainer
