#include "client/cli/local/trainer_mode.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/cli/local/child_process.h"

namespace evenstep::cli {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(50);
constexpr absl::Duration kStopGrace = absl::Seconds(2);

}  // namespace

absl::Status RunTrainerMode(const Environment& environment,
                            const std::string& trainer,
                            const std::string& folder,
                            const std::vector<std::string>& arguments) {
  ChildOptions options;
  options.launcher = environment.bin_dir + "/evenstep";
  options.program =
      trainer.empty() ? environment.bin_dir + "/evenstep-trainer" : trainer;
  options.log_path = folder + "/log";
  options.arguments = arguments;
  EVENSTEP_ASSIGN_OR_RETURN(ChildProcess process, ChildProcess::Start(options));
  while (!process.Ended()) {
    if (environment.interrupted.stop_requested()) {
      process.Terminate();
      process.WaitOrKill(kStopGrace);
      return absl::CancelledError("interrupted");
    }
    absl::SleepFor(kPollInterval);
  }
  const std::string end = *process.Ended();
  if (end == "ended with exit status 0") return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the trainer ", end, ":\n", process.LogTail()));
}

}  // namespace evenstep::cli
