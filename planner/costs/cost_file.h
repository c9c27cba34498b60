#ifndef EVENSTEP_PLANNER_COSTS_COST_FILE_H_
#define EVENSTEP_PLANNER_COSTS_COST_FILE_H_

// The one grammar of costs as YAML, of a TimeModel's part of it: the `time` map
// of a cost file (planner/models/, whose files are examples), the `costs` map
// of a job or of a profile, and a file of nothing but these keys. The keys are
// those of cost_fields.h, for example
//
//   micro_batch_fixed_ns: 1656000
//   head_ns_per_token: 1281.5
//   collective: [{degree: 2, ns_per_token: 1117.5}]
//
// The costs of a kind of layer of a video model are a map,
// `spatial: {quadratic_ns_per_token2: 1.1, ...}`, or keys of their own,
// `spatial_quadratic_ns_per_token2: 1.1`. Text in, plain struct out, and back;
// no I/O. Stateless.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/yaml.h"
#include "planner/model.h"

namespace evenstep::planner {

enum class CostsOf { kPlan, kJob };

// Reads a map of the keys above. INVALID_ARGUMENT with "FILE:LINE: sentence":
// an unknown key, a number that no request may have, or a missing cost
// (CostUse): it would be planned with as 0 without a word. `path` names the map
// in messages.
absl::StatusOr<TimeModel> ReadTime(const YamlNode& map, absl::string_view file,
                                   const std::string& path, CostsOf of);

// Costs of a job: such a map, or a cost file for `evenstep plan`, of which the
// job takes the `time` map.
absl::StatusOr<TimeModel> ReadJobCosts(const YamlNode& root,
                                       absl::string_view file);

// "key: value" lines, each after `indent`, that ReadTime reads back.
std::string FormatTime(const TimeModel& time, absl::string_view indent);

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_COSTS_COST_FILE_H_
