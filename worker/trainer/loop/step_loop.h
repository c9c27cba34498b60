#ifndef EVENSTEP_WORKER_TRAINER_LOOP_STEP_LOOP_H_
#define EVENSTEP_WORKER_TRAINER_LOOP_STEP_LOOP_H_

// A rank's steps, from gate to gate: report coming lengths, agree at the gate,
// run the plan, reduce, update, evaluate if that is due, and report the step
// once the next gate has seen it. Nothing here waits for the coordinator except
// the gate, for a plan that is late. Main thread only.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "jobspec/job_spec.h"
#include "wire/step_plan.h"
#include "worker/trainer/comm/communicator.h"
#include "worker/trainer/job/engine.h"
#include "worker/trainer/job/training_data.h"
#include "worker/trainer/loop/evaluator.h"
#include "worker/trainer/loop/step_gate.h"
#include "worker/trainer/loop/step_recorder.h"
#include "worker/trainer/loop/train.h"
#include "worker/trainer/parallel/step_runner.h"

namespace evenstep::trainer {

struct StepsDone {
  int64_t committed = 0;
  bool stopped = false;  // before the last step
  // Not OK: all ranks have come to the end together and know that they fail.
  // With a reason and the step. With all steps committed it is the evaluation
  // after the last one that failed.
  absl::Status failure;
};

class StepLoop {
 public:
  // What they point to outlives the loop. `evaluator` is null if the job has no
  // evaluation.
  StepLoop(const TrainParts* parts, const TrainingData* data, Engine* engine,
           StepRecorder* recorder, const Evaluator* evaluator);

  // Errors carry a reason and the step; peers may still be in the middle of a
  // step. After a step that is not finite, no rank has made its update.
  absl::StatusOr<StepsDone> Run();

 private:
  // Sends the lengths of all steps up to `last` that were not sent yet.
  absl::Status ReportLengthsUpTo(int64_t last);
  absl::StatusOr<NextStep> PassGate(int64_t step);
  // NOT_FINITE comes on all ranks together.
  absl::Status RunStep(const NextStep& next);
  absl::StatusOr<StepResult> RunPlan(const NextStep& next);
  // `failure` is StepsDone::failure.
  absl::Status EvaluateIfDue(int64_t step, absl::Status* failure);
  absl::Status NotFiniteError(const wire::StepPlan& plan,
                              absl::string_view what,
                              const std::vector<int64_t>& suspects) const;

  const TrainParts& parts_;
  const TrainingData& data_;
  Engine& engine_;
  StepRecorder& recorder_;
  const Evaluator* const evaluator_;
  StepGate gate_;
  const int64_t total_steps_;
  int64_t next_lengths_ = 0;  // first step whose lengths were not sent
};

// Which samples a step that is not finite is blamed on. The ranks tell each
// other which micro-batches went wrong, so that every rank names the same
// samples. Called by the step loop on its way out.

// Ids of the samples of every micro-batch whose loss was not finite on some
// rank. Only if there is none, a gradient says more: a bad loss spreads to the
// gradients of all ranks of its group. All samples of the step when no
// micro-batch stands out. Collective over the world; if that fails, what this
// rank saw has to do, and nothing is returned if it saw nothing.
std::vector<int64_t> SuspectSamples(const wire::StepPlan& plan,
                                    const StepResult& result,
                                    Communicator& world);

// All samples of the step.
std::vector<int64_t> AllSamples(const wire::StepPlan& plan);

// How long a rank waits for its peers in one collective before it takes them
// for lost. Pure functions; every rank computes the same from the same plan.

inline constexpr absl::Duration kShortestCollectiveTimeout = absl::Seconds(60);
// Beyond any use, and far from where clocks overflow.
inline constexpr absl::Duration kLongestTimeout = absl::Hours(7 * 24);
inline constexpr int kPredictedStepsPerTimeout = 10;

// The job's own, or else the larger of 60 s and ten predicted steps;
// predicted_step_ns of 0: nothing is predicted yet.
inline absl::Duration CollectiveTimeout(const jobspec::TimeoutSpec& timeouts,
                                        int64_t predicted_step_ns) {
  const absl::Duration predicted =
      kPredictedStepsPerTimeout * absl::Nanoseconds(predicted_step_ns);
  return std::min(kLongestTimeout, timeouts.collective.value_or(std::max(
                                       kShortestCollectiveTimeout, predicted)));
}

// Of building and warming groups, of measuring costs and of the first gate:
// ranks come to those as late as their start may take.
inline absl::Duration SetUpTimeout(const jobspec::TimeoutSpec& timeouts) {
  return std::min(kLongestTimeout, timeouts.start);
}

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LOOP_STEP_LOOP_H_
