#ifndef EVENSTEP_CLIENT_CLI_USAGE_ERROR_H_
#define EVENSTEP_CLIENT_CLI_USAGE_ERROR_H_

// What was wrong with the words of a command line, in words for people: CLI11
// knows what it could not read, and says it in its own. Used by app.cc. Pure.

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace evenstep::cli {

// Of an error that `app` threw when it parsed; `commands` are those it knows.
std::string ExplainUsage(const CLI::App& app, const CLI::ParseError& error,
                         const std::vector<std::string>& commands);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_USAGE_ERROR_H_
