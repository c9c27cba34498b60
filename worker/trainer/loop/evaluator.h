#ifndef EVENSTEP_WORKER_TRAINER_LOOP_EVALUATOR_H_
#define EVENSTEP_WORKER_TRAINER_LOOP_EVALUATOR_H_

// The job's evaluation: the mean loss of held-out samples, after some steps and
// the last one. Forward passes alone, over the groups that steps run on, as
// evenly over the ranks as a step: nothing that training depends on changes.
// Samples are read before ranks enter a collective, and every plan's are agreed
// on, so a file that has changed on one node fails all ranks together. Main
// thread only; Create and Run are collective over the world.

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "planner/request.h"
#include "wire/step_plan.h"
#include "worker/trainer/job/engine.h"
#include "worker/trainer/job/evaluation_data.h"
#include "worker/trainer/job/trainer_setup.h"

namespace evenstep::trainer {

struct EvaluationResult {
  // Not OK: all ranks know that they fail. With a reason and the step.
  absl::Status failure;
  double loss = 0;  // mean over trained tokens; identical on all ranks
  int64_t trained_tokens = 0;
};

class Evaluator {
 public:
  struct Parts {
    const TrainerSetup* setup;
    const EvaluationData* data;
    Engine* engine;
    // Called before the first collective of an evaluation, with what its
    // longest plan is predicted to take.
    std::function<void(int64_t predicted_ns)> set_timeout;
  };
  // Makes the plans. `costs` are this rank's; those of rank 0 count, on all
  // ranks. Errors have a reason (failure.h). What `parts` points to outlives
  // the evaluator.
  static absl::StatusOr<Evaluator> Create(const Parts& parts,
                                          const planner::TimeModel& costs);

  // Whether an evaluation follows the step.
  bool IsDue(int64_t step) const;

  // After the step's update and before the next gate. Errors have a reason and
  // the step; peers may be in the middle of a collective.
  absl::StatusOr<EvaluationResult> Run(int64_t step) const;

  const std::vector<wire::StepPlan>& plans() const { return plans_; }

 private:
  Evaluator(const Parts& parts, std::vector<wire::StepPlan> plans);
  absl::StatusOr<EvaluationResult> RunPlans(int64_t step) const;
  // Whether all ranks could read their samples: `failure` is as that of the
  // result. Returns an error of the collective.
  absl::Status Agree(const absl::Status& own, int64_t step,
                     absl::Status* failure) const;
  // The mean over all ranks.
  absl::StatusOr<EvaluationResult> Reduce(const ForwardResult& own,
                                          int64_t step) const;

  Parts parts_;
  std::vector<wire::StepPlan> plans_;
  int64_t trained_tokens_ = 0;   // of all plans
  int64_t longest_plan_ns_ = 0;  // as predicted
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LOOP_EVALUATOR_H_
