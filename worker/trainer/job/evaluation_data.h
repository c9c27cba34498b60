#ifndef EVENSTEP_WORKER_TRAINER_JOB_EVALUATION_DATA_H_
#define EVENSTEP_WORKER_TRAINER_JOB_EVALUATION_DATA_H_

// The samples that a job is evaluated on, the same at every evaluation: held
// out of its data, or of a source of their own. Their ids lie far beyond those
// of any step, and what is random about a sample follows from its id, so noise
// and given frames of clips are the same at every evaluation too, and two
// evaluations can be compared. Main thread only.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/dataset.h"
#include "planner/request.h"
#include "wire/step_plan.h"
#include "worker/trainer/job/trainer_setup.h"
#include "worker/trainer/job/training_data.h"

namespace evenstep::trainer {

class EvaluationData {
 public:
  // `documents` of `dataset` are those that are evaluated.
  EvaluationData(std::unique_ptr<data::Dataset> dataset,
                 const std::vector<int64_t>& documents,
                 const TrainerSetup& setup);

  const std::vector<planner::Sample>& samples() const { return samples_; }

  // What this rank works on under a plan of those samples. Errors carry
  // DATA_ERROR and `step`.
  absl::StatusOr<SampleMap> Load(const wire::StepPlan& plan,
                                 int64_t step) const;

 private:
  planner::Sample SampleOf(int64_t document) const;
  int64_t GivenFrames(int64_t document) const;

  std::unique_ptr<data::Dataset> dataset_;
  uint64_t seed_;
  double given_frames_;  // probability
  int64_t vocab_;
  int rank_;
  std::vector<planner::Sample> samples_;
};

// Plans of an evaluation. Its samples are the same every time, so each rank
// makes the plans once, before the first step, from the same samples and costs,
// and planning is pure: all come to the same ones. The coordinator plans steps
// alone, whose samples only the ranks know in time. Pure functions.

// In order, each of enough samples to be even. By the job's policy; where that
// has no plan or one that the checker refuses, by `static`, as the coordinator
// does. Every sample stands in one plan. FAILED_PRECONDITION: a sample fits no
// degree, with the numbers.
absl::StatusOr<std::vector<wire::StepPlan>> PlanEvaluation(
    const TrainerSetup& setup, const planner::TimeModel& costs,
    const std::vector<planner::Sample>& samples);

// Of all of them.
uint64_t DigestOf(const std::vector<wire::StepPlan>& plans);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_JOB_EVALUATION_DATA_H_
