#ifndef EVENSTEP_CLIENT_CLI_GENERATE_COMMAND_H_
#define EVENSTEP_CLIENT_CLI_GENERATE_COMMAND_H_

// `evenstep generate`: a clip from a video model that was trained, as an
// animated picture. The sampling is done by a trainer process in its generate
// mode, because this program links no torch.

#include <cstdint>
#include <string>

#include "client/cli/environment.h"
#include "client/cli/exit_code.h"
#include "client/cli/output.h"

namespace evenstep::cli {

struct GenerateCommand {
  std::string weights;
  std::string out = "clip.gif";
  int frames = 16;
  int height = 16;
  int width = 16;
  int steps = 50;
  uint64_t seed = 0;
  bool untrained = false;
};

ExitCode Generate(Environment& environment, const GlobalOptions& global,
                  const GenerateCommand& command);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_GENERATE_COMMAND_H_
