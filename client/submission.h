#ifndef EVENSTEP_CLIENT_SUBMISSION_H_
#define EVENSTEP_CLIENT_SUBMISSION_H_

// What every Client does before it sends a job: parse the file, choose the id.
// Pure but for the random id. Used by the real and the fake client.

#include <string>

#include "absl/status/statusor.h"
#include "evenstep/client.h"
#include "jobspec/job_spec.h"

namespace evenstep::client {

struct Submission {
  std::string job_id;
  jobspec::JobSpec spec;
};

// INVALID_ARGUMENT with "FILE:LINE: key: sentence", or for a bad id.
absl::StatusOr<Submission> MakeSubmission(const SubmitOptions& options);

// The parts of a Job that repeat its spec.
void FillFromSpec(const jobspec::JobSpec& spec, Job* job);

}  // namespace evenstep::client

#endif  // EVENSTEP_CLIENT_SUBMISSION_H_
