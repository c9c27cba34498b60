#ifndef EVENSTEP_JOBSPEC_RULES_DATA_RULES_H_
#define EVENSTEP_JOBSPEC_RULES_DATA_RULES_H_

// The rules of what a job is trained and evaluated on. Pure.

#include "jobspec/job_spec.h"
#include "jobspec/rules/rule_parts.h"

namespace evenstep::jobspec {

Found DataRules(const JobSpec& spec);
Found EvaluationRules(const JobSpec& spec);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_RULES_DATA_RULES_H_
