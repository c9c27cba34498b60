#ifndef EVENSTEP_WORKER_TRAINER_PARALLEL_STEP_RUNNER_H_
#define EVENSTEP_WORKER_TRAINER_PARALLEL_STEP_RUNNER_H_

// Runs one rank's part of a step's plan, and the reduction that makes every
// plan's gradient equal that of one process (law 2): each rank's sum of token
// losses is divided by the plan's trained tokens, gradients are summed over the
// world, and there is no other factor. Called by the step loop between gates;
// main thread only. Foreign exceptions end here.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/dataset.h"
#include "evenstep/trainer/model.h"
#include "wire/step_plan.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/comm/group_tree.h"
#include "worker/trainer/parallel/compute_timer.h"
#include "worker/trainer/parallel/gradient_buffer.h"
#include "worker/trainer/parallel/ulysses.h"

namespace evenstep::trainer {

// The communicators that a step runs on, by whom they are found: the tree of a
// generation, groups opened for one plan, or a test's own. Plain data; what it
// refers to outlives it.

struct StepGroups {
  int rank = 0;
  Communicator* world = nullptr;
  // The communicator of [first_rank, first_rank + degree), which contains the
  // rank; NOT_FOUND: there is none.
  std::function<absl::StatusOr<Communicator*>(int first_rank, int degree)> find;
};

inline StepGroups GroupsOf(GroupTree* tree) {
  return {tree->rank(), &tree->world(), [tree](int first_rank, int degree) {
            return tree->GroupFor(first_rank, degree);
          }};
}

// A sample by its id in the plan. Called on the runner's thread.
using SampleReader =
    std::function<absl::StatusOr<data::SampleTokens>(int64_t sample_id)>;

// What this rank did in one micro-batch.
struct MicroBatchResult {
  int index = 0;                 // into StepPlan::micro_batches
  double loss_sum = 0;           // of own trained tokens
  int64_t trained_tokens = 0;    // own
  bool loss_not_finite = false;  // own; its samples are suspects
  // The rank's gradient is not finite, though no loss of its own is: each of
  // its micro-batches may be why, and so may a peer's loss.
  bool gradient_not_finite = false;
  int64_t total_ns = 0;       // wall time, collectives included
  int64_t collective_ns = 0;  // wall time inside its collectives
  int64_t compute_ns = 0;     // outside them, by the compute clock
  int64_t padded_tokens = 0;  // tokens that this rank worked on
  // The most that tensors held beside what lived before; 0 where bytes are not
  // counted (model/tensor_memory.h).
  int64_t activation_bytes = 0;
};

// `loss`, `trained_tokens` and `not_finite` are the whole step's, identical on
// all ranks.
struct StepResult {
  double loss = 0;  // mean over trained tokens
  int64_t trained_tokens = 0;
  int64_t not_finite = 0;    // above 0: no rank may update
  int64_t reduction_ns = 0;  // wall time inside the reduction's collectives
  // The reduction outside them, by the compute clock (compute_timer.h).
  int64_t reduction_compute_ns = 0;
  int64_t padded_tokens = 0;  // own, over all micro-batches
  // The most that the rank's tensors held at once; 0 where it is not counted.
  int64_t peak_tensor_bytes = 0;
  std::vector<MicroBatchResult> micro_batches;  // own, in order
};

// Of this rank's own tokens.
struct ForwardResult {
  double loss_sum = 0;
  int64_t trained_tokens = 0;
};

struct StepRunnerOptions {
  IrregularHeads irregular_heads = IrregularHeads::kRefuse;
  // As the optimizer's: which gradients the reduction leaves on this rank.
  Sharding sharding = Sharding::kNone;
  // The job's, of what is random about samples (model/sample_random.h).
  uint64_t seed = 0;
};

class StepRunner {
 public:
  // `model` and what `groups` finds outlive the runner. The parameters'
  // gradients become views of one buffer that the runner owns.
  StepRunner(Model* model, StepGroups groups,
             const StepRunnerOptions& options = {});

  // Collective over the world: every rank calls it with the same plan, with or
  // without work. Afterwards each parameter's grad() is the step's gradient, if
  // not_finite is 0; under ZeRO-1 in this rank's run of elements.
  // INVALID_ARGUMENT: the plan's world or trained tokens are no good, or the
  // model ran fewer layers through RunRecomputed than the plan says; INTERNAL:
  // the ranks counted other tokens than the plan; NOT_FOUND: no such group;
  // errors of `read` and of collectives are passed on.
  absl::StatusOr<StepResult> Run(const wire::StepPlan& plan,
                                 const SampleReader& read);

  // Forward and backward of one micro-batch, collective over its group, with no
  // reduction: for measuring costs. Gradients are added to and mean nothing.
  absl::StatusOr<MicroBatchResult> RunMicroBatch(
      const wire::PlannedMicroBatch& micro_batch, const SampleReader& read,
      int64_t divisor_tokens);

  // The losses of this rank's part of a plan and nothing else: no gradients, no
  // recompute, no reduction. Collective over the groups of its micro-batches.
  // Errors as of Run.
  absl::StatusOr<ForwardResult> RunForward(const wire::StepPlan& plan,
                                           const SampleReader& read);

  // Sums gradients over the world and does nothing else: for measuring.
  absl::Status ReduceGradients();

  // By which this rank's computing is timed.
  ComputeClock compute_clock() const { return compute_clock_; }

 private:
  absl::Status RunPlan(const wire::StepPlan& plan, const SampleReader& read,
                       StepResult* result);
  absl::Status ReduceTotals(const wire::StepPlan& plan, StepResult* result);
  absl::Status AddLosses(const wire::PlannedMicroBatch& micro_batch,
                         const SampleReader& read, ForwardResult* result);

  Model* const model_;
  const StepGroups groups_;
  const StepRunnerOptions options_;
  const ComputeClock compute_clock_;
  GradientBuffer gradients_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PARALLEL_STEP_RUNNER_H_
