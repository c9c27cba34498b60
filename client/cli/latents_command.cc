#include "client/cli/latents_command.h"

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/cli/flags.h"

namespace evenstep::cli {

void AddMakeLatentsFlags(CLI::App* app, MakeLatentsCommand* command) {
  app->add_option("folder", command->folder, "Where the files are put")
      ->required()
      ->type_name("");
  data::MovingLatentsOptions* const options = &command->options;
  app->add_option("--clips", options->clips, "Number of clips")
      ->capture_default_str();
  AddSeed(
      app, &options->seed,
      absl::StrCat("The same seed makes the same clips (", options->seed, ")"));
  app->add_option("--max-frames", options->max_frames,
                  "Frames of the longest clips")
      ->capture_default_str();
  app->add_option("--max-side", options->max_side,
                  "Latent pixels of the largest frames, a multiple of 4")
      ->capture_default_str();
}

ExitCode MakeLatents(Environment& environment, const GlobalOptions& global,
                     const MakeLatentsCommand& command) {
  Output output(environment, global);
  const auto files = data::WriteMovingLatents(command.folder, command.options,
                                              environment.interrupted);
  if (!files.ok()) return output.FailHere(files.status());
  output.Message(absl::StrCat(command.options.clips, " clips in ", *files,
                              *files == 1 ? " file" : " files"));
  const std::string source = absl::StrCat("latents:", command.folder);
  if (output.structured()) {
    output.Document({{"source", source},
                     {"clips", command.options.clips},
                     {"files", *files}});
    return kExitOk;
  }
  output.Text(absl::StrCat(source, "\n"));
  return kExitOk;
}

}  // namespace evenstep::cli
