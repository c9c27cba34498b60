#ifndef EVENSTEP_COORDINATOR_SERVER_COORDINATOR_SERVER_H_
#define EVENSTEP_COORDINATOR_SERVER_COORDINATOR_SERVER_H_

// A whole coordinator in this process: store, event loop, planner threads,
// metrics and gRPC server. Made by the binary's main, by `evenstep local` and
// by tests. Start and Shutdown belong to one thread.
//
//   auto server = CoordinatorServer::Start({.store_path = ":memory:"});
//   ... (*server)->address() ...
//   (*server)->Shutdown(absl::Seconds(5));

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/event_loop.h"
#include "coordinator/server/agent_service.h"
#include "coordinator/server/coordinator.h"
#include "coordinator/server/job_service.h"
#include "coordinator/server/metrics.h"
#include "rpc/server.h"

namespace evenstep::coordinator {

struct CoordinatorSettings {
  std::string listen = "127.0.0.1:7070";  // port 0: any free one
  std::string store_path = "evenstep.db";
  std::string metrics_listen;  // empty: no metrics
  bool insecure_allow_remote = false;
  int planner_threads = 1;
  StoreLimits store_limits;
  CoordinatorOptions options;
  planner::PlannerFunctions planner = planner::RealPlanner();
};

// INVALID_ARGUMENT with the setting and the number.
absl::Status CheckSettings(const CoordinatorSettings& settings);

class CoordinatorServer {
 public:
  static absl::StatusOr<std::unique_ptr<CoordinatorServer>> Start(
      const CoordinatorSettings& settings);
  ~CoordinatorServer();  // Shutdown without grace
  CoordinatorServer(const CoordinatorServer&) = delete;
  CoordinatorServer& operator=(const CoordinatorServer&) = delete;

  const std::string& address() const { return server_->address(); }
  int port() const { return server_->port(); }
  int metrics_port() const {
    return metrics_server_ ? metrics_server_->port() : 0;
  }

  const Metrics& metrics() const { return metrics_; }

  // NOT_SERVING, nothing more admitted, streams finished, all threads joined
  // within about `grace`. Jobs stay in the store as they are; trainers go on.
  void Shutdown(absl::Duration grace);

 private:
  explicit CoordinatorServer(const CoordinatorSettings& settings);
  absl::Status Launch(const CoordinatorSettings& settings);
  // On the loop, and again after an interval.
  void Tick();

  // In order of use; Shutdown takes them down in the reverse order.
  rpc::StreamRegistry streams_;
  std::unique_ptr<JobStore> store_;
  Metrics metrics_;
  std::unique_ptr<MetricsServer> metrics_server_;
  std::unique_ptr<PlannerPool> planners_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<JobServiceImpl> job_service_;
  std::unique_ptr<AgentServiceImpl> agent_service_;
  std::unique_ptr<rpc::Server> server_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_COORDINATOR_SERVER_H_
