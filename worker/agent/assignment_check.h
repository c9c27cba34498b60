#ifndef EVENSTEP_WORKER_AGENT_ASSIGNMENT_CHECK_H_
#define EVENSTEP_WORKER_AGENT_ASSIGNMENT_CHECK_H_

// What an agent demands of an assignment before it makes a folder or starts a
// process for it. Touches nothing but the data path's links.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "evenstep/v1/agent.pb.h"

namespace evenstep::agent {

// INVALID_ARGUMENT: ids or placements that make no sense. PERMISSION_DENIED:
// the data is not below `data_root`.
absl::Status CheckAssignment(const v1::Assignment& assignment,
                             const std::string& data_root);

// Whether the tokenizer and the weights that the job names are what it takes
// them for (jobspec/input_check.h); after CheckAssignment, which says where
// they may be. A job that breaks a rule is left to its trainers.
absl::Status CheckAssignedInputs(const v1::Assignment& assignment);

// Whether "KIND:PATH" stays below `data_root`, links followed.
absl::Status CheckDataPath(absl::string_view source,
                           const std::string& data_root);

// NOT_FOUND: neither the path nor, of a pattern, the folder that it begins with
// is on this node. What is in it is the trainers' business.
absl::Status CheckDataIsThere(absl::string_view source);

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_ASSIGNMENT_CHECK_H_
