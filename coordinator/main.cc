// evenstep-coordinator: queue, placement and plans for training jobs. Runs
// until SIGTERM or SIGINT. Without TLS it serves loopback only.

#include <cstdio>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/atomic_file.h"
#include "base/config_table.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/version.h"
#include "coordinator/server/coordinator_server.h"

namespace evenstep::coordinator {
namespace {

constexpr int kStartError = 1;
constexpr int kUsageError = 2;

struct MainSettings {
  CoordinatorSettings server;
  std::string port_file;
  std::string metrics_port_file;
  absl::Duration shutdown_grace = absl::Seconds(10);
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
};

void AddSettings(ConfigTable& table, MainSettings* settings) {
  CoordinatorSettings& server = settings->server;
  CoordinatorOptions& options = server.options;
  table.Add("listen", "EVENSTEP_LISTEN", &server.listen,
            "HOST:PORT for users and agents; port 0 takes any free one");
  table.Add("port-file", "EVENSTEP_PORT_FILE", &settings->port_file,
            "file that gets the port in use");
  table.Add(
      "store", "EVENSTEP_STORE", &server.store_path,
      "SQLite file of jobs and events; :memory: keeps nothing after exit");
  table.Add("metrics-listen", "EVENSTEP_METRICS_LISTEN", &server.metrics_listen,
            "HOST:PORT of the Prometheus endpoint; empty: none");
  table.Add("metrics-port-file", "EVENSTEP_METRICS_PORT_FILE",
            &settings->metrics_port_file,
            "file that gets the metrics port in use");
  table.Add("insecure-allow-remote", "EVENSTEP_INSECURE_ALLOW_REMOTE",
            &server.insecure_allow_remote,
            "serve other hosts without encryption or authentication");
  table.Add("heartbeat-interval", "EVENSTEP_HEARTBEAT_INTERVAL",
            &options.heartbeat_interval, "how often agents send heartbeats");
  table.Add(
      "lease", "EVENSTEP_LEASE", &options.times.lease,
      absl::StrCat("how long a node without a stream may be silent before "
                   "it is lost; one with an open stream has ",
                   absl::FormatDuration(options.times.stream_grace), " more"));
  table.Add("reconnect-budget", "EVENSTEP_RECONNECT_BUDGET",
            &options.times.reconnect_budget,
            "how long trainers keep running without a coordinator");
  table.Add(
      "step-deadline", "EVENSTEP_STEP_DEADLINE", &options.times.step_deadline,
      "a running job fails after this long without a report or a plan; must "
      "exceed the longest step, evaluation and writing of weights; 0s: never");
  table.Add("planner-threads", "EVENSTEP_PLANNER_THREADS",
            &server.planner_threads, "threads that plan steps");
  table.Add("retained-jobs", "EVENSTEP_RETAINED_JOBS", &options.retained_jobs,
            "number of finished jobs to keep; ids of older ones can be used "
            "again; 0: all");
  table.Add("retained-jobs-for", "EVENSTEP_RETAINED_JOBS_FOR",
            &options.retained_for,
            "how long a finished job is kept; 0s: without limit");
  table.Add("retained-steps", "EVENSTEP_RETAINED_STEPS",
            &server.store_limits.steps_per_job, "step summaries kept per job");
  table.Add("retained-log-lines", "EVENSTEP_RETAINED_LOG_LINES",
            &server.store_limits.log_lines_per_job, "log lines kept per job");
  table.Add("metrics-retention", "EVENSTEP_METRICS_RETENTION",
            &options.metrics_retention,
            "how long the metrics of a finished job stay");
  table.Add("shutdown-grace", "EVENSTEP_SHUTDOWN_GRACE",
            &settings->shutdown_grace, "time to finish open streams");
  table.Add("log-level", "EVENSTEP_LOG_LEVEL", &settings->log_level,
            "debug, info, warning or error");
  table.Add("log-format", "EVENSTEP_LOG_FORMAT", &settings->log_format,
            "text or json");
  table.AddCheck([&server] { return CheckSettings(server); });
}

absl::Status WritePort(const std::string& path, int port) {
  if (path.empty()) return absl::OkStatus();
  return WriteFileAtomically(path, absl::StrCat(port, "\n"));
}

absl::Status Announce(const MainSettings& settings,
                      const CoordinatorServer& server) {
  absl::Status written = WritePort(settings.port_file, server.port());
  written.Update(WritePort(settings.metrics_port_file, server.metrics_port()));
  std::printf("listening on %s\n", server.address().c_str());
  std::fflush(stdout);
  Log(LogLevel::kInfo, "serving",
      {{"address", server.address()}, {"metrics_port", server.metrics_port()}});
  if (settings.server.insecure_allow_remote) {
    Log(LogLevel::kWarning, "insecure",
        {{"message",
          "anyone who can reach this port can run jobs: there is no "
          "encryption and no authentication"}});
  }
  return written;
}

void AwaitStop() {
  absl::Notification stop;
  SignalWaiter signals(
      {.on_stop =
           [&] {
             if (!stop.HasBeenNotified()) stop.Notify();
           },
       .on_reload =
           [] {
             Log(LogLevel::kWarning, "sighup_ignored",
                 {{"message", "settings are read at start only; restart"}});
           }});
  stop.WaitForNotification();
}

int Fail(const absl::Status& status) {
  Log(LogLevel::kError, "not_started", {{"error", status}});
  return absl::IsInvalidArgument(status) ? kUsageError : kStartError;
}

int Main(int argc, char** argv) {
  BlockSignals();
  MainSettings settings;
  settings.server.options.version = std::string(Version());
  ConfigTable table(
      "evenstep-coordinator",
      "Queues, places and plans training jobs. SIGTERM and SIGINT "
      "stop it; SIGHUP is ignored: settings are read at start.");
  AddSettings(table, &settings);
  if (std::optional<int> code = table.Run(argc, argv)) return *code;
  SetUpLogging(settings.log_level, settings.log_format, "coordinator");
  table.LogEffective();

  auto server = CoordinatorServer::Start(settings.server);
  if (!server.ok()) return Fail(server.status());
  const absl::Status announced = Announce(settings, **server);
  if (!announced.ok()) return Fail(announced);
  AwaitStop();
  Log(LogLevel::kInfo, "shutting_down", {});
  (*server)->Shutdown(settings.shutdown_grace);
  Log(LogLevel::kInfo, "stopped", {});
  return 0;
}

}  // namespace
}  // namespace evenstep::coordinator

int main(int argc, char** argv) {
  return evenstep::coordinator::Main(argc, argv);
}
