#ifndef EVENSTEP_JOBSPEC_JOB_WARNINGS_H_
#define EVENSTEP_JOBSPEC_JOB_WARNINGS_H_

// What a job does that its user may not have meant, and that is not wrong
// enough to refuse: sentences with the numbers, for the log, `describe`, the
// summary and `data inspect`. A job with warnings runs. Reads the header of
// given weights; stateless.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "jobspec/job_spec.h"

namespace evenstep::jobspec {

// Bounds of what travels with a job.
inline constexpr int kMaxWarnings = 8;
inline constexpr size_t kMaxWarningBytes = 400;

// What the job's data turned out to be.
struct DataFacts {
  int64_t num_samples = 0;      // to train on
  int64_t longest = 0;          // tokens
  int64_t total_tokens = 0;     // of these samples
  int64_t tokens_left_out = 0;  // of data::DatasetSummary, as those below
  int64_t num_long_files = 0;
  data::UnreadFiles unread = {};
  int64_t num_evaluated = 0;
  int64_t num_evaluated_trained = 0;  // of them, those that are trained on
};

// Within the bounds above; the same on every rank that sees the same files.
// What cannot be read is not warned of: starting will name it.
std::vector<std::string> JobWarnings(const JobSpec& spec,
                                     const DataFacts& data);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_JOB_WARNINGS_H_
