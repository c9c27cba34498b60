#include "coordinator/server/coordinator_server.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/listen_address.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/store/sqlite_job_store.h"

namespace evenstep::coordinator {
namespace {

// Leases, time-outs and allocation are looked at so often.
constexpr absl::Duration kTickInterval = absl::Milliseconds(20);

absl::Status CheckPositive(const char* name, absl::Duration duration) {
  if (duration > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " is ", absl::FormatDuration(duration), "; it must be above 0"));
}

}  // namespace

absl::Status CheckSettings(const CoordinatorSettings& settings) {
  const CoordinatorOptions& options = settings.options;
  EVENSTEP_RETURN_IF_ERROR(
      CheckPositive("heartbeat-interval", options.heartbeat_interval));
  EVENSTEP_RETURN_IF_ERROR(CheckPositive("lease", options.times.lease));
  EVENSTEP_RETURN_IF_ERROR(
      CheckPositive("reconnect-budget", options.times.reconnect_budget));
  if (options.times.lease < 2 * options.heartbeat_interval) {
    return absl::InvalidArgumentError(
        absl::StrCat("lease is ", absl::FormatDuration(options.times.lease),
                     "; it must be at least two heartbeats of ",
                     absl::FormatDuration(options.heartbeat_interval)));
  }
  if (options.times.step_deadline < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step-deadline is ", absl::FormatDuration(options.times.step_deadline),
        "; it must not be negative, and 0s means none"));
  }
  if (settings.planner_threads < 1 || settings.planner_threads > 64) {
    return absl::InvalidArgumentError(absl::StrCat(
        "planner-threads is ", settings.planner_threads, "; use 1 to 64"));
  }
  if (options.retained_jobs < 0 ||
      options.retained_for < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "retained-jobs and retained-jobs-for must not be negative");
  }
  if (settings.store_limits.steps_per_job < 1 ||
      settings.store_limits.log_lines_per_job < 1) {
    return absl::InvalidArgumentError(
        "retained-steps and retained-log-lines must be at least 1");
  }
  const RemoteAccess access = AllowRemote(settings.insecure_allow_remote);
  if (!settings.metrics_listen.empty()) {
    EVENSTEP_RETURN_IF_ERROR(CheckListenAddress(
        "--metrics-listen", settings.metrics_listen, access));
  }
  return CheckListenAddress("--listen", settings.listen, access);
}

CoordinatorServer::CoordinatorServer(const CoordinatorSettings& settings)
    : metrics_(settings.options.version) {}

CoordinatorServer::~CoordinatorServer() { Shutdown(absl::ZeroDuration()); }

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Start(
    const CoordinatorSettings& settings) {
  EVENSTEP_RETURN_IF_ERROR(CheckSettings(settings));
  std::unique_ptr<CoordinatorServer> server(new CoordinatorServer(settings));
  EVENSTEP_RETURN_IF_ERROR(server->Launch(settings));
  return server;
}

absl::Status CoordinatorServer::Launch(const CoordinatorSettings& settings) {
  EVENSTEP_ASSIGN_OR_RETURN(
      store_, SqliteJobStore::Open(settings.store_path, settings.store_limits));
  if (!settings.metrics_listen.empty()) {
    EVENSTEP_ASSIGN_OR_RETURN(
        metrics_server_,
        MetricsServer::Start(settings.metrics_listen, metrics_.registry()));
  }
  loop_ = std::make_unique<EventLoop>("coordinator");
  planners_ = std::make_unique<PlannerPool>(settings.planner_threads);
  coordinator_ = std::make_unique<Coordinator>(
      CoordinatorParts{
          *store_, metrics_, RealClock(), *planners_,
          [this](std::function<void()> work) { loop_->Post(std::move(work)); },
          settings.planner},
      settings.options);
  absl::Status started;
  loop_->Call([&] { started = coordinator_->Start(); });
  EVENSTEP_RETURN_IF_ERROR(started);
  loop_->Post([this] { Tick(); });
  const ServiceParts parts{*coordinator_, *loop_, metrics_, streams_};
  job_service_ = std::make_unique<JobServiceImpl>(parts);
  agent_service_ = std::make_unique<AgentServiceImpl>(parts);
  EVENSTEP_ASSIGN_OR_RETURN(
      server_,
      rpc::Server::Start(
          {.listen_address = settings.listen,
           .insecure_allow_remote = settings.insecure_allow_remote},
          streams_,
          {{v1::JobService::service_full_name(), job_service_.get()},
           {v1::AgentService::service_full_name(), agent_service_.get()}}));
  return absl::OkStatus();
}

void CoordinatorServer::Tick() {
  coordinator_->Tick();
  loop_->PostAfter(kTickInterval, [this] { Tick(); });
}

void CoordinatorServer::Shutdown(absl::Duration grace) {
  if (server_ != nullptr) {
    server_->SetServing(false);
    loop_->Call([this] { coordinator_->Shutdown(); });
    server_->Shutdown(grace);
  }
  if (loop_ != nullptr) loop_->Stop();
  // Joined before the loop goes: planners post to it.
  planners_.reset();
}

}  // namespace evenstep::coordinator
