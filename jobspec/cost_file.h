#ifndef EVENSTEP_JOBSPEC_COST_FILE_H_
#define EVENSTEP_JOBSPEC_COST_FILE_H_

// Costs as YAML, for cost files and for the `costs` map of a job file. Used
// inside jobspec only; others call ParseCostFile and FormatCostFile of
// job_spec.h. Pure functions.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/yaml.h"
#include "planner/request.h"

namespace evenstep::jobspec {

// INVALID_ARGUMENT with "NAME:LINE: sentence". Only `collective` and
// `head_ns_per_token` may be left out: a file without a cost would plan with
// zero and not say so.
absl::StatusOr<planner::TimeModel> ReadCosts(const YamlNode& root,
                                             absl::string_view name);
// "key: value" lines, each after `indent`.
std::string FormatCosts(const planner::TimeModel& costs,
                        absl::string_view indent);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_COST_FILE_H_
