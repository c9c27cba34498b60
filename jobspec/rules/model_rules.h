#ifndef EVENSTEP_JOBSPEC_RULES_MODEL_RULES_H_
#define EVENSTEP_JOBSPEC_RULES_MODEL_RULES_H_

// The rules of a job's model: sizes, heads, and what is of one kind of model
// alone. Pure.

#include "jobspec/job_spec.h"
#include "jobspec/rules/rule_parts.h"

namespace evenstep::jobspec {

Found ModelRules(const ModelSpec& model);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_RULES_MODEL_RULES_H_
