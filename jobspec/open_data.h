#ifndef EVENSTEP_JOBSPEC_OPEN_DATA_H_
#define EVENSTEP_JOBSPEC_OPEN_DATA_H_

// All data of a job, opened under its rules and indexed: what it trains on, and
// what it is evaluated on, which never meet. Called by every rank at its start,
// and by `evenstep data inspect`, so that it shows what a job does. Reads the
// data; stateless.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/dataset.h"
#include "data/held_out.h"
#include "jobspec/job_spec.h"

namespace evenstep::jobspec {

struct OpenedData {
  std::unique_ptr<data::Dataset> training;  // has a sample
  std::unique_ptr<data::Dataset> held_out;  // null: the job is not evaluated
  data::EvaluatedDocuments evaluated;       // of held_out; one at least
  uint64_t content_key = 0;                 // of both
  std::vector<std::string> warnings = {};   // job_warnings.h
};

// `progress` is called while data is indexed (data/dataset.h). Errors of it, of
// OpenDataset and of SplitHeldOut; DATA_LOSS: there is nothing to train
// on or to evaluate, or tokens are outside the model's vocabulary.
absl::StatusOr<OpenedData> OpenData(
    const JobSpec& spec, const data::IndexProgressFunction& progress = {});

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_OPEN_DATA_H_
