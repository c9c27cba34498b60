#ifndef EVENSTEP_CLIENT_CLI_DATA_COMMAND_H_
#define EVENSTEP_CLIENT_CLI_DATA_COMMAND_H_

// `evenstep data inspect` and `evenstep data tokenize`: what is in a source
// before a job trains on it, and text into Megatron's files. They need no
// coordinator. Commands run on the main thread.

#include <cstdint>
#include <string>

#include "client/cli/environment.h"
#include "client/cli/exit_code.h"
#include "client/cli/show/output.h"

namespace CLI {
class App;
}

namespace evenstep::cli {

struct InspectDataCommand {
  std::string what;  // a source, or a job file
  std::string tokenizer;
  int64_t max_length = 0;  // 0: the job file's; none for a source
  int patch = 0;           // of latents; 0: the job file's; 1 for a source
  bool list_bad = false;   // names all bad samples, not only the first
};

struct TokenizeDataCommand {
  std::string source;
  std::string tokenizer;
  std::string out;  // prefix of the pair
  bool skip_bad = false;
};

void AddInspectDataFlags(CLI::App* app, InspectDataCommand* command);
void AddTokenizeDataFlags(CLI::App* app, TokenizeDataCommand* command);

ExitCode InspectData(Environment& environment, const GlobalOptions& global,
                     const InspectDataCommand& command);
ExitCode TokenizeData(Environment& environment, const GlobalOptions& global,
                      const TokenizeDataCommand& command);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_DATA_COMMAND_H_
