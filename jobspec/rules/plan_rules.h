#ifndef EVENSTEP_JOBSPEC_RULES_PLAN_RULES_H_
#define EVENSTEP_JOBSPEC_RULES_PLAN_RULES_H_

// The rules of what bounds a job's plans: the batch, ranks and their groups,
// memory and recompute. Pure.

#include <cstdint>

#include "jobspec/job_spec.h"
#include "jobspec/rules/rule_parts.h"

namespace evenstep::jobspec {

// Of the message that carries the plan of one step
// (proto/evenstep/v1/plan.proto), whatever the plan is.
int64_t MostPlanBytes(const JobSpec& spec);

Found BatchRules(const JobSpec& spec);
Found RankRules(const JobSpec& spec);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_RULES_PLAN_RULES_H_
