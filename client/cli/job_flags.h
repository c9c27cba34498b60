#ifndef EVENSTEP_CLIENT_CLI_JOB_FLAGS_H_
#define EVENSTEP_CLIENT_CLI_JOB_FLAGS_H_

// Flags of the commands that speak of a coordinator's jobs (commands.h). The
// command outlives the app. No state.

#include "client/cli/commands.h"

namespace CLI {
class App;
}

namespace evenstep::cli {

void AddSubmitFlags(CLI::App* app, SubmitCommand* command);
void AddListFlags(CLI::App* app, ListCommand* command);
void AddLogsFlags(CLI::App* app, LogsCommand* command);
void AddEventsFlags(CLI::App* app, EventsCommand* command);
void AddCancelFlags(CLI::App* app, CancelCommand* command);
void AddWaitFlags(CLI::App* app, WaitCommand* command);
void AddVersionFlags(CLI::App* app, VersionCommand* command);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_JOB_FLAGS_H_
