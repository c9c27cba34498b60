#ifndef EVENSTEP_WORKER_TRAINER_PARALLEL_GRADIENT_BUFFER_H_
#define EVENSTEP_WORKER_TRAINER_PARALLEL_GRADIENT_BUFFER_H_

// One flat buffer that all gradients of a model live in, so that the reduction
// is one collective without copies. Parameters' grad() are views of it;
// autograd adds into them in place. Gradients of bfloat16 parameters are
// float32: small ones must not be lost in the sum over micro-batches. Owned by
// StepRunner; main thread only.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "evenstep/trainer/model.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/optim/sharding.h"

namespace evenstep::trainer {

class GradientBuffer {
 public:
  // All parameters have the same dtype: float, double or bfloat16.
  explicit GradientBuffer(const std::vector<NamedParameter>& parameters);

  void Zero();
  // Values that are infinite or no numbers.
  int64_t CountNotFinite() const;
  // The sum over all ranks, in place: of all gradients, or, under ZeRO-1, of
  // this rank's run of elements, and the others then mean nothing. INTERNAL: a
  // gradient is no longer in the buffer.
  absl::Status Reduce(Communicator& world, Sharding sharding);

 private:
  absl::Status CheckViews() const;

  std::vector<NamedParameter> parameters_;
  at::Tensor flat_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PARALLEL_GRADIENT_BUFFER_H_
