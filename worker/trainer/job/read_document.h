#ifndef EVENSTEP_WORKER_TRAINER_JOB_READ_DOCUMENT_H_
#define EVENSTEP_WORKER_TRAINER_JOB_READ_DOCUMENT_H_

// A document as a sample, checked against what its plan and its model say of
// it. Called for samples that are trained on and for held-out ones. No state.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "data/dataset.h"

namespace evenstep::trainer {

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

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_JOB_READ_DOCUMENT_H_
