#ifndef EVENSTEP_WORKER_TRAINER_JOB_TRAINING_DATA_H_
#define EVENSTEP_WORKER_TRAINER_JOB_TRAINING_DATA_H_

// The job's samples as the step loop sees them: documents behind sample ids,
// lengths for reports, tokens for a plan; of video, which frames are given. A
// sample's id fixes its document (data/sampler.h), so a plan is checked against
// the data here: same samples (law 1), same lengths. Main thread only. Errors
// carry DATA_ERROR or PLAN_MISMATCH (failure.h).

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "evenstep/v1/plan.pb.h"
#include "wire/step_plan.h"
#include "worker/trainer/job/trainer_setup.h"

namespace evenstep::trainer {

// A document as a sample, checked against what its plan and its model say of
// it. Called for samples that are trained on and for held-out ones. No state.

struct DocumentWanted {
  int64_t document = 0;
  int64_t planned_length = 0;
  int64_t vocab = 0;  // of the model
  std::string name;   // for messages
};

// Errors carry DATA_ERROR and the step (failure.h).
absl::StatusOr<data::SampleTokens> ReadDocument(const data::Dataset& dataset,
                                                const DocumentWanted& wanted,
                                                int64_t step);

using SampleMap = std::map<int64_t, data::SampleTokens>;

class TrainingData {
 public:
  // Opened by jobspec/open_data.h; with a sample, and in the model's
  // vocabulary.
  TrainingData(std::unique_ptr<data::Dataset> dataset,
               const TrainerSetup& setup);

  // This rank's share of the step's lengths.
  evenstep::v1::LengthReport Lengths(int64_t step) const;
  // Tokens of every sample that this rank works on under the plan.
  absl::StatusOr<SampleMap> Load(const wire::StepPlan& plan) const;
  // "sample 17 (NAME OF ITS DOCUMENT)", for messages.
  std::string Describe(int64_t sample_id) const;

 private:
  absl::Status CheckSameSamples(const wire::StepPlan& plan) const;
  absl::StatusOr<data::SampleTokens> Read(int64_t step, int64_t sample_id,
                                          int64_t planned_length) const;
  int64_t GivenFrames(int64_t sample_id) const;

  std::unique_ptr<data::Dataset> dataset_;
  data::Sampler sampler_;
  int64_t vocab_;
  uint64_t seed_;
  double given_frames_;  // probability
  int64_t generation_;
  int rank_;
  int world_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_JOB_TRAINING_DATA_H_
