#ifndef EVENSTEP_CLIENT_CLI_PROFILE_COMMAND_H_
#define EVENSTEP_CLIENT_CLI_PROFILE_COMMAND_H_

// `evenstep profile`: measures what a job's model costs on this machine, shows
// how well the costs predict micro-batches they were not fitted to, and stores
// them where `costs: profile` finds them. The measuring is done by a trainer
// process in its profile mode, because this program links no torch.

#include <optional>
#include <string>
#include <vector>

#include "client/cli/environment.h"
#include "client/cli/exit_code.h"
#include "client/cli/show/output.h"
#include "jobspec/profile.h"

namespace CLI {
class App;
}

namespace evenstep::cli {

struct ProfileCommand {
  std::string file;
  std::string preset;
  std::vector<std::string> overrides;
  std::optional<int> ranks;
  int repeats = 5;
  std::string out;      // a folder, or a file that ends in .yaml
  std::string trainer;  // empty: beside this binary
};

void AddProfileFlags(CLI::App* app, ProfileCommand* command);

ExitCode Profile(Environment& environment, const GlobalOptions& global,
                 const ProfileCommand& command);

// The table of points and what was found, for people.
std::string FormatProfileReport(const jobspec::Profile& profile,
                                ColourMode mode);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_PROFILE_COMMAND_H_
