#ifndef EVENSTEP_WORKER_TRAINER_LOOP_STEP_LOOP_H_
#define EVENSTEP_WORKER_TRAINER_LOOP_STEP_LOOP_H_

// A rank's steps, from gate to gate: report coming lengths, agree at the gate,
// run the plan, reduce, update, evaluate if that is due, and report the step
// once the next gate has seen it. Nothing here waits for the coordinator except
// the gate, for a plan that is late. Main thread only.

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/job/engine.h"
#include "worker/trainer/job/training_data.h"
#include "worker/trainer/loop/evaluator.h"
#include "worker/trainer/loop/step_gate.h"
#include "worker/trainer/loop/step_recorder.h"
#include "worker/trainer/loop/train.h"

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

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LOOP_STEP_LOOP_H_
