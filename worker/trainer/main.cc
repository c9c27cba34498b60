// evenstep-trainer: one rank of a job. Started by the agent, ends with it.

#include <signal.h>

#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/config_table.h"
#include "base/log.h"
#include "worker/trainer/comm/emulated_link.h"
#include "worker/trainer/loop/fault.h"
#include "worker/trainer/loop/run_trainer.h"

namespace {

// A peer's death must not raise SIGPIPE. Ctrl-C and a closed terminal reach the
// whole process group, but whether to stop is the agent's to say; SIGTERM ends
// the process as usual, even if the parent had it blocked.
void SetUpSignals() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  sigset_t terminate;
  sigemptyset(&terminate);
  sigaddset(&terminate, SIGTERM);
  sigprocmask(SIG_UNBLOCK, &terminate, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  evenstep::trainer::TrainerOptions options;
  evenstep::LogLevel level = evenstep::LogLevel::kInfo;
  evenstep::LogFormat format = evenstep::LogFormat::kText;
  evenstep::ConfigTable table("evenstep-trainer",
                              "Runs one rank of a job for its agent.");
  table.Add("socket", "EVENSTEP_TRAINER_SOCKET", &options.socket_path,
            "Unix socket of the agent");
  table.Add("rank", "EVENSTEP_TRAINER_RANK", &options.rank,
            "rank of this process");
  table.Add("log-level", "EVENSTEP_LOG_LEVEL", &level,
            "debug, info, warning or error");
  table.Add("log-format", "EVENSTEP_LOG_FORMAT", &format, "text or json");
  table.AddCheck(
      [&] { return evenstep::trainer::ValidateTrainerOptions(options); });
  if (const std::optional<int> code = table.Run(argc, argv)) return *code;

  SetUpSignals();
  evenstep::SetUpLogging(level, format,
                         absl::StrCat("trainer rank=", options.rank));
  const char* fault = std::getenv(evenstep::trainer::kFaultVariable);
  options.fault_text = fault == nullptr ? "" : fault;
  const char* link = std::getenv(evenstep::trainer::kEmulatedLinkVariable);
  options.emulated_link_text = link == nullptr ? "" : link;
  return evenstep::trainer::RunTrainer(options);
}
