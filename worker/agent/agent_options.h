#ifndef EVENSTEP_WORKER_AGENT_AGENT_OPTIONS_H_
#define EVENSTEP_WORKER_AGENT_AGENT_OPTIONS_H_

// Settings of one agent, as the daemon's flags give them or `evenstep local`
// fills them in. Plain data.

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "evenstep/v1/agent.pb.h"

namespace evenstep {
class ConfigTable;
}  // namespace evenstep

namespace evenstep::agent {

// What an agent demands of an assignment (assignment_check.h).
using AssignmentCheck = std::function<absl::Status(
    const v1::Assignment& assignment, const std::string& data_root)>;

struct AgentOptions {
  std::string coordinator = "127.0.0.1:7070";
  std::string node;  // empty: the machine's name
  int slots = 1;     // ranks at once
  std::string work_dir = "evenstep-work";
  std::string output_root;  // empty: WORK_DIR/out
  std::string data_root = "/";
  std::string trainer;  // empty: evenstep-trainer beside this binary
  std::string listen_host = "127.0.0.1";  // of trainers, for their peers
  int threads_per_rank = 1;
  std::string metrics_listen = "127.0.0.1:0";  // empty: no metrics
  // Without it listen_host and metrics_listen are loopback addresses.
  bool insecure_allow_remote = false;
  int log_lines_per_second = 1000;  // of one trainer, sent on
  absl::Duration shutdown_grace = absl::Seconds(10);
  // No flags: for tests. Null: CheckAssignment.
  AssignmentCheck check;
  absl::Duration check_limit = absl::Seconds(10);
};

// Adds every setting above to a table of flags.
void AddAgentOptions(ConfigTable& table, AgentOptions* options);

// Fills empty settings in, makes paths absolute, and checks ranges.
// INVALID_ARGUMENT with the flag and the numbers.
absl::Status CompleteAgentOptions(AgentOptions* options);

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_AGENT_OPTIONS_H_
