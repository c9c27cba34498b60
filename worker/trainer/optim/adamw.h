#ifndef EVENSTEP_WORKER_TRAINER_OPTIM_ADAMW_H_
#define EVENSTEP_WORKER_TRAINER_OPTIM_ADAMW_H_

// AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, 2019), after
// clipping by the global norm. Matrices decay, vectors (norms) do not. Main
// thread only.
//
// Either every rank holds the whole state and makes the same update, or, under
// ZeRO-1 (Rajbhandari et al., 2020), each rank holds the states of its run of
// elements, updates those and gathers the others' parameters: the same update
// to rounding of the norm. Parameters in bfloat16 have float32 masters, which
// are what is updated; gradients and states are float32 then.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "evenstep/trainer/model.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/optim/flat_parameters.h"
#include "worker/trainer/optim/sharding.h"
#include "worker/trainer/optim/update_by_ops.h"

namespace evenstep::trainer {

// Learning rate by step: linear warm-up, then half a cosine down to a share of
// the peak. A pure function of the step, so ranks and restarts agree.
struct Schedule {
  double peak = 3e-4;
  int64_t warmup_steps = 0;
  int64_t total_steps = 1;
  double final_share = 0.1;  // of the peak, at the last step
};

// Step from 0. With w warm-up steps, step s < w has peak * (s + 1) / w; step w
// has the peak; step total_steps - 1 and later have peak * final_share.
double LearningRate(const Schedule& schedule, int64_t step);

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
  // Updates the parameters' storage in place; reads their grad(). With
  // `sharded_over`, which outlives the optimizer, states are split over its
  // ranks, and the parameters move into one tensor.
  AdamW(std::vector<NamedParameter> parameters, const AdamWOptions& options,
        Communicator* sharded_over = nullptr);

  // One update, by step number from 0; collective if sharded, where a rank
  // reads the gradients of its own run only. FAILED_PRECONDITION: the norm is
  // not finite, on all ranks; INTERNAL: a gradient is missing; then nothing has
  // changed. Errors of collectives are passed on.
  absl::StatusOr<UpdateResult> Update(int64_t step);

  // Whether all parameters are of the same step: false after an update that
  // failed half-way.
  bool parameters_whole() const { return parameters_whole_; }

  // Bytes of states and masters on this rank.
  int64_t state_bytes() const;

 private:
  absl::Status UpdateAll(int64_t step, UpdateResult* result);
  // [1], float64, where the gradients stand: of this rank's run.
  at::Tensor OwnSquareSum() const;
  absl::StatusOr<double> GradientNorm(int64_t step);
  void UpdateSlice(const UpdateFactors& factors, const ParameterSlice& slice);
  absl::Status GatherParameters();

  std::vector<NamedParameter> parameters_;
  const AdamWOptions options_;
  Communicator* const sharded_over_;
  std::vector<ParameterSlice> slices_;  // of this rank's run
  ElementRange range_;
  // Over the run, flat.
  at::Tensor mean_;
  at::Tensor square_;
  at::Tensor master_;  // if parameters are bfloat16
  at::Tensor flat_;    // all parameters, if sharded
  bool parameters_whole_ = true;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_OPTIM_ADAMW_H_
