#ifndef EVENSTEP_JOBSPEC_RULES_RULES_H_
#define EVENSTEP_JOBSPEC_RULES_RULES_H_

// The rules of a job that need no data and no cluster, with the key that each
// is about, so that a reader of files can say on which line it stands. Used
// inside jobspec, and where a model is read from elsewhere. Pure functions.

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "jobspec/job_spec.h"

namespace evenstep::jobspec {

struct RuleBreak {
  std::string key;  // dotted
  std::string sentence;
};

// The first rule that `spec` breaks.
std::optional<RuleBreak> FindRuleBreak(const JobSpec& spec);
// The rules of a model alone. INVALID_ARGUMENT with the key and the numbers.
absl::Status ValidateModelSpec(const ModelSpec& model);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_RULES_RULES_H_
