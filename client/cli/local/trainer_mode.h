#ifndef EVENSTEP_CLIENT_CLI_LOCAL_TRAINER_MODE_H_
#define EVENSTEP_CLIENT_CLI_LOCAL_TRAINER_MODE_H_

// Runs a trainer process that does one thing and ends, such as to measure a
// profile: this program links no torch. Blocks.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/environment.h"

namespace evenstep::cli {

// `trainer` is the program; empty: evenstep-trainer beside this one.
// `arguments` begin with the mode's word; the log goes into `folder`, which is
// there. CANCELLED on Ctrl-C; what the trainer says of its failure; INTERNAL
// with its last words if it says nothing.
absl::Status RunTrainerMode(const Environment& environment,
                            const std::string& trainer,
                            const std::string& folder,
                            const std::vector<std::string>& arguments);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_LOCAL_TRAINER_MODE_H_
