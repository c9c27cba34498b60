#include "worker/trainer/loop/trainer_main.h"

#include <signal.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/config_table.h"
#include "base/log.h"
#include "base/signals.h"
#include "worker/trainer/comm/emulated_link.h"
#include "worker/trainer/job/fault.h"
#include "worker/trainer/loop/run_trainer.h"
#include "worker/trainer/model/tensor_memory.h"

namespace evenstep::trainer {
namespace {

// Ctrl-C and a closed terminal reach the whole process group, but whether to
// stop is the agent's to say. RunTrainer waits for SIGTERM.
void SetUpSignals() {
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  BlockSigtermOnly();
}

// Of variables that only tests and benchmarks set.
std::string Environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

}  // namespace

int TrainerMain(int argc, char** argv, const DeviceSupport* device,
                const NamedModels* models) {
  TrainerOptions options;
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  ConfigTable table(
      device == nullptr ? "evenstep-trainer" : "evenstep-trainer-cuda",
      "Runs one rank of a job for its agent.");
  table.Add("socket", "EVENSTEP_TRAINER_SOCKET", &options.socket_path,
            "Unix socket of the agent");
  table.Add("rank", "EVENSTEP_TRAINER_RANK", &options.rank,
            "rank of this process");
  table.Add("log-level", "EVENSTEP_LOG_LEVEL", &level,
            "debug, info, warning or error");
  table.Add("log-format", "EVENSTEP_LOG_FORMAT", &format, "text or json");
  table.AddCheck([&] { return ValidateTrainerOptions(options); });
  if (const std::optional<int> code = table.Run(argc, argv)) return *code;

  CountTensorBytes();
  SetUpSignals();
  SetUpLogging(level, format, absl::StrCat("trainer rank=", options.rank));
  options.fault_text = Environment(kFaultVariable);
  options.emulated_link_text = Environment(kEmulatedLinkVariable);
  options.device = device;
  options.models = models;
  return RunTrainer(options);
}

}  // namespace evenstep::trainer
