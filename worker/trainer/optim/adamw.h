#ifndef EVENSTEP_WORKER_TRAINER_OPTIM_ADAMW_H_
#define EVENSTEP_WORKER_TRAINER_OPTIM_ADAMW_H_

// AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, 2019), after
// clipping by the global norm. Every rank holds the whole state and makes the
// same update. Matrices decay, vectors (norms) do not. Main thread only.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/optim/schedule.h"

namespace evenstep::trainer {

struct AdamWOptions {
  Schedule schedule;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;  // bound on the global norm; 0: none
};

struct UpdateResult {
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
};

class AdamW {
 public:
  // Updates the parameters' storage in place; reads their grad().
  AdamW(std::vector<NamedParameter> parameters, const AdamWOptions& options);

  // One update, by step number from 0. FAILED_PRECONDITION: the norm is
  // not finite; INTERNAL: a gradient is missing; then nothing has changed.
  absl::StatusOr<UpdateResult> Update(int64_t step);

 private:
  struct State {
    at::Tensor mean;
    at::Tensor square;
  };

  std::vector<NamedParameter> parameters_;
  const AdamWOptions options_;
  std::vector<State> states_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_OPTIM_ADAMW_H_
