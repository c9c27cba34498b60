#ifndef EVENSTEP_JOBSPEC_RULES_COST_RULES_H_
#define EVENSTEP_JOBSPEC_RULES_COST_RULES_H_

// The rules of a job's costs, and of the profile that they are from. Those of
// costs alone are in rules.h. Pure.

#include "jobspec/job_spec.h"
#include "jobspec/rules/rule_parts.h"

namespace evenstep::jobspec {

Found CostRules(const JobSpec& spec);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_RULES_COST_RULES_H_
