#ifndef EVENSTEP_WORKER_TRAINER_PARALLEL_GRADIENT_BUFFER_H_
#define EVENSTEP_WORKER_TRAINER_PARALLEL_GRADIENT_BUFFER_H_

// One flat buffer that all gradients of a model live in, so that the reduction
// is one collective without copies. Parameters' grad() are views of it;
// autograd adds into them in place. Owned by StepRunner; main thread only.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/model/model.h"

namespace evenstep::trainer {

class GradientBuffer {
 public:
  // All parameters have the same dtype, float or double.
  explicit GradientBuffer(const std::vector<NamedParameter>& parameters);

  void Zero();
  // Values that are infinite or no numbers.
  int64_t CountNotFinite() const;
  // Over all ranks, in place. INTERNAL: a gradient no longer stands in the
  // buffer.
  absl::Status AllReduce(Communicator& world);

 private:
  std::vector<NamedParameter> parameters_;
  at::Tensor flat_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PARALLEL_GRADIENT_BUFFER_H_
