#ifndef EVENSTEP_CLIENT_CLI_APP_H_
#define EVENSTEP_CLIENT_CLI_APP_H_

// The words of the command line: parses them and runs the command.

#include <string>
#include <vector>

#include "client/cli/environment.h"

namespace evenstep::cli {

// `arguments` without the program's name. Returns the exit code.
int RunCli(const std::vector<std::string>& arguments, Environment& environment);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_APP_H_
