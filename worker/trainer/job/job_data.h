#ifndef EVENSTEP_WORKER_TRAINER_JOB_JOB_DATA_H_
#define EVENSTEP_WORKER_TRAINER_JOB_JOB_DATA_H_

// All data of a job (jobspec/open_data.h) as the step loop sees it. Opened by
// every rank at its start; what they see is compared by the content key before
// the first step.

#include <optional>

#include "absl/status/statusor.h"
#include "data/dataset.h"
#include "evenstep/v1/plan.pb.h"
#include "worker/trainer/job/evaluation_data.h"
#include "worker/trainer/job/trainer_setup.h"
#include "worker/trainer/job/training_data.h"

namespace evenstep::trainer {

struct JobData {
  TrainingData training;
  std::optional<EvaluationData> evaluation;  // absent: the job has none
  evenstep::v1::DataSummary summary;         // of both
};

// `progress` is called while data is indexed; its errors are returned. Errors
// carry DATA_ERROR.
absl::StatusOr<JobData> OpenJobData(
    const TrainerSetup& setup, const data::IndexProgressFunction& progress);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_JOB_JOB_DATA_H_
