#ifndef EVENSTEP_CLIENT_CLI_LATENTS_COMMAND_H_
#define EVENSTEP_CLIENT_CLI_LATENTS_COMMAND_H_

// `evenstep data make-latents`: a small made-up set of video latents. Needs no
// coordinator. Runs on the main thread.

#include <string>

#include "client/cli/environment.h"
#include "client/cli/exit_code.h"
#include "client/cli/show/output.h"
#include "data/latents/moving_latents.h"

namespace CLI {
class App;
}

namespace evenstep::cli {

struct MakeLatentsCommand {
  std::string folder;
  data::MovingLatentsOptions options;
};

// `command` outlives the app.
void AddMakeLatentsFlags(CLI::App* app, MakeLatentsCommand* command);

ExitCode MakeLatents(Environment& environment, const GlobalOptions& global,
                     const MakeLatentsCommand& command);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_LATENTS_COMMAND_H_
