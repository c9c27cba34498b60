#include "client/cli/generate_command.h"

#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/local/result_folder.h"
#include "client/cli/local/trainer_mode.h"

namespace evenstep::cli {
namespace {

absl::Status Run(const Environment& environment,
                 const GenerateCommand& command) {
  if (!std::filesystem::exists(command.weights)) {
    return absl::InvalidArgumentError(
        absl::StrCat("no such weights file: ", command.weights));
  }
  EVENSTEP_ASSIGN_OR_RETURN(const PrivateFolder folder, PrivateFolder::Make());
  std::vector<std::string> arguments = {
      "generate", "--weights",
      std::filesystem::absolute(command.weights).string(), "--out",
      std::filesystem::absolute(command.out).string()};
  for (const auto& [flag, value] : {std::pair("--frames", command.frames),
                                    {"--height", command.height},
                                    {"--width", command.width},
                                    {"--steps", command.steps}}) {
    arguments.insert(arguments.end(), {flag, absl::StrCat(value)});
  }
  arguments.insert(arguments.end(), {"--seed", absl::StrCat(command.seed)});
  if (command.untrained) arguments.push_back("--untrained");
  return RunTrainerMode(environment, /*trainer=*/"", folder.path(), arguments);
}

}  // namespace

ExitCode Generate(Environment& environment, const GlobalOptions& global,
                  const GenerateCommand& command) {
  Output output(environment, global);
  const absl::Status status = Run(environment, command);
  if (!status.ok()) return output.Fail(status);
  if (output.structured()) {
    output.Document({{"path", command.out}});
    return kExitOk;
  }
  output.Text(absl::StrCat(command.out, "\n"));
  return kExitOk;
}

}  // namespace evenstep::cli
