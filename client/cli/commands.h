#ifndef EVENSTEP_CLIENT_CLI_COMMANDS_H_
#define EVENSTEP_CLIENT_CLI_COMMANDS_H_

// What each command does, once its words are parsed (app.h). Each returns the
// exit code of the program. `local` is in local/local_command.h.

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/environment.h"
#include "client/cli/exit_code.h"
#include "client/cli/show/output.h"

namespace evenstep::cli {

struct SubmitCommand {
  std::string file;
  std::string preset;
  std::vector<std::string> overrides;
  std::string name;
  std::string job_id;
  bool no_wait = false;
};

struct ListCommand {
  std::vector<std::string> states;
  int limit = 100;
};

inline constexpr int kAllRanks = -1000000;

struct LogsCommand {
  std::string job_id;
  bool follow = false;
  int rank = kAllRanks;  // -1: the agents' lines
};

struct EventsCommand {
  std::string job_id;
  bool follow = false;
};

struct CancelCommand {
  std::string job_id;
  std::string message;
};

struct WaitCommand {
  std::string job_id;
  absl::Duration timeout = absl::InfiniteDuration();
};

struct VersionCommand {
  bool server = false;
};

ExitCode Submit(Environment& environment, const GlobalOptions& global,
                const SubmitCommand& command);
ExitCode List(Environment& environment, const GlobalOptions& global,
              const ListCommand& command);
ExitCode Describe(Environment& environment, const GlobalOptions& global,
                  const std::string& job_id);
ExitCode Logs(Environment& environment, const GlobalOptions& global,
              const LogsCommand& command);
ExitCode Events(Environment& environment, const GlobalOptions& global,
                const EventsCommand& command);
ExitCode Cancel(Environment& environment, const GlobalOptions& global,
                const CancelCommand& command);
ExitCode Wait(Environment& environment, const GlobalOptions& global,
              const WaitCommand& command);
ExitCode Health(Environment& environment, const GlobalOptions& global);
ExitCode PrintVersion(Environment& environment, const GlobalOptions& global,
                      const VersionCommand& command);

// A client of the coordinator that the options name; tells once on stderr when
// it has to try again.
std::unique_ptr<client::Client> ConnectFor(Environment& environment,
                                           const GlobalOptions& global);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_COMMANDS_H_
