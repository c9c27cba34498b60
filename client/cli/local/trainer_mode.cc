#include "client/cli/local/trainer_mode.h"

#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "client/cli/local/child_process.h"

namespace evenstep::cli {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(50);
constexpr absl::Duration kStopGrace = absl::Seconds(2);
constexpr int64_t kMaxStatusBytes = 1 << 20;

// What a trainer says of a usage error: "evenstep-trainer generate: REASON".
std::string WithoutProgram(absl::string_view line) {
  const size_t colon = line.find(": ");
  return std::string(colon == line.npos ? line : line.substr(colon + 2));
}

// Of a trainer that ended with `end`: its own words where it left them.
absl::Status FailureOf(const ChildProcess& process, absl::string_view end,
                       const std::string& status_file) {
  const auto left = ReadWholeFile(status_file, kMaxStatusBytes);
  if (left.ok()) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(*left, absl::MaxSplits('\n', 1));
    int code = 0;
    if (absl::SimpleAtoi(parts.first, &code) && code > 0 && code <= 16) {
      return absl::Status(static_cast<absl::StatusCode>(code), parts.second);
    }
  }
  const std::string log = process.LogTail();
  if (end == "ended with exit status 2") {
    return absl::InvalidArgumentError(
        WithoutProgram(absl::StripAsciiWhitespace(log)));
  }
  return absl::InternalError(absl::StrCat("the trainer ", end, ":\n", log));
}

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
  const std::string status_file = folder + "/status";
  options.arguments.push_back("--status-file=" + status_file);
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
  return FailureOf(process, end, status_file);
}

}  // namespace evenstep::cli
