#ifndef EVENSTEP_CLIENT_CLI_GENERATE_COMMAND_H_
#define EVENSTEP_CLIENT_CLI_GENERATE_COMMAND_H_

// `evenstep generate`: what a trained model makes, text or a clip as an
// animated picture, by what its weights say they are. The work is done by a
// trainer process in its generate mode, because this program links no torch.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/environment.h"
#include "client/cli/exit_code.h"
#include "client/cli/show/output.h"

namespace CLI {
class App;
}

namespace evenstep::cli {

struct GenerateCommand {
  std::string weights;
  std::string out;      // empty: clip.gif, or stdout for text
  std::string trainer;  // empty: beside this binary
  uint64_t seed = 0;
  // Of text.
  std::optional<std::string> prompt;  // absent: stdin
  bool chat = false;
  int64_t max_tokens = 200;
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
  std::string tokenizer;
  std::string logits;
  // Of video.
  int frames = 16;
  int height = 16;
  int width = 16;
  int steps = 50;
  bool untrained = false;
  // Flags of either kind that were said.
  std::vector<std::string> text_flags;
  std::vector<std::string> video_flags;
};

void AddGenerateFlags(CLI::App* app, GenerateCommand* command);

ExitCode Generate(Environment& environment, const GlobalOptions& global,
                  const GenerateCommand& command);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_GENERATE_COMMAND_H_
