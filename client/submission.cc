#include "client/submission.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "planner/planner.h"
#include "wire/message_bounds.h"

namespace evenstep::client {

absl::StatusOr<Submission> MakeSubmission(const SubmitOptions& options) {
  jobspec::ParseOptions parse;
  parse.name = options.file_name;
  parse.base_dir = options.base_dir;
  parse.overrides = options.overrides;
  parse.override_names = options.override_names;
  EVENSTEP_ASSIGN_OR_RETURN(jobspec::JobSpec spec,
                            jobspec::ParseJobFile(options.job_yaml, parse));
  std::string id =
      options.job_id.empty() ? MakeJobId(spec.name) : options.job_id;
  if (!wire::IsLegalJobId(id)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "job id '", id,
        "' is not legal: use 1 to 63 of a-z, 0-9 and -, beginning with a "
        "letter"));
  }
  return Submission{std::move(id), std::move(spec)};
}

void FillFromSpec(const jobspec::JobSpec& spec, Job* job) {
  job->name = spec.name;
  job->policy = std::string(planner::PolicyName(spec.policy));
  job->data_source = spec.data.source;
  job->ranks = spec.ranks;
  job->num_steps = spec.steps;
  job->job_yaml = jobspec::FormatJobFile(spec);
}

}  // namespace evenstep::client
