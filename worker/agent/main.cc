// evenstep-worker: the agent of one node. Runs until SIGTERM or SIGINT.

#include <optional>

#include "absl/synchronization/notification.h"
#include "base/config_table.h"
#include "base/log.h"
#include "base/signals.h"
#include "worker/agent/agent.h"

namespace {

struct LogSettings {
  evenstep::LogLevel level = evenstep::LogLevel::kInfo;
  evenstep::LogFormat format = evenstep::LogFormat::kText;
};

constexpr int kUsageError = 2;
constexpr int kStartError = 1;

}  // namespace

int main(int argc, char** argv) {
  evenstep::BlockSignals();
  evenstep::agent::AgentOptions options;
  LogSettings logging;
  evenstep::ConfigTable table("evenstep-worker",
                              "Runs the trainers of one node.");
  evenstep::agent::AddAgentOptions(table, &options);
  table.Add("log-level", "EVENSTEP_LOG_LEVEL", &logging.level,
            "debug, info, warning or error");
  table.Add("log-format", "EVENSTEP_LOG_FORMAT", &logging.format,
            "text or json");
  table.AddCheck(
      [&] { return evenstep::agent::CompleteAgentOptions(&options); });
  if (std::optional<int> code = table.Run(argc, argv)) return *code;
  evenstep::SetUpLogging(logging.level, logging.format, "agent");
  table.LogEffective();

  auto agent = evenstep::agent::Agent::Start(options);
  if (!agent.ok()) {
    evenstep::Log(evenstep::LogLevel::kError, "agent_not_started",
                  {{"status", agent.status()}});
    return absl::IsInvalidArgument(agent.status()) ? kUsageError : kStartError;
  }
  absl::Notification stop;
  {
    evenstep::SignalWaiter signals({.on_stop =
                                        [&] {
                                          if (!stop.HasBeenNotified()) {
                                            stop.Notify();
                                          }
                                        },
                                    .on_reload = [] {}});
    stop.WaitForNotification();
  }
  (*agent)->Stop(options.shutdown_grace);
  return 0;
}
