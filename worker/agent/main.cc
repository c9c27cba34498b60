// evenstep-worker: the agent of one node. Runs until SIGTERM or SIGINT.

#include <atomic>
#include <mutex>
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
  evenstep::ConfigTable table(
      "evenstep-worker",
      "Runs the trainers of one node. SIGTERM and SIGINT stop "
      "it; SIGHUP is ignored: settings are read at start.");
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

  std::atomic<bool> refused = false;
  absl::Notification stop;
  std::once_flag stop_once;
  const auto stop_now = [&] {
    std::call_once(stop_once, [&] { stop.Notify(); });
  };
  auto agent = evenstep::agent::Agent::Start(options, [&](const auto&) {
    refused = true;
    stop_now();
  });
  if (!agent.ok()) {
    evenstep::Log(evenstep::LogLevel::kError, "agent_not_started",
                  {{"status", agent.status()}});
    return absl::IsInvalidArgument(agent.status()) ? kUsageError : kStartError;
  }
  {
    evenstep::SignalWaiter signals(
        {.on_stop = stop_now, .on_reload = [] {
           evenstep::Log(
               evenstep::LogLevel::kWarning, "sighup_ignored",
               {{"message", "settings are read at start only; restart"}});
         }});
    stop.WaitForNotification();
  }
  (*agent)->Stop(options.shutdown_grace);
  return refused ? kStartError : 0;
}
