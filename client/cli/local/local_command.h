#ifndef EVENSTEP_CLIENT_CLI_LOCAL_LOCAL_COMMAND_H_
#define EVENSTEP_CLIENT_CLI_LOCAL_LOCAL_COMMAND_H_

// `evenstep local`: a job from nothing to trained weights on this machine. Runs
// on the main thread.

#include "client/cli/environment.h"
#include "client/cli/exit_code.h"
#include "client/cli/local/local_job.h"
#include "client/cli/show/output.h"

namespace CLI {
class App;
}

namespace evenstep::cli {

void AddLocalFlags(CLI::App* app, LocalCommand* command);

ExitCode Local(Environment& environment, const GlobalOptions& global,
               const LocalCommand& command);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_LOCAL_LOCAL_COMMAND_H_
