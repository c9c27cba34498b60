#ifndef EVENSTEP_CLIENT_CLI_LOCAL_LOCAL_CLUSTER_H_
#define EVENSTEP_CLIENT_CLI_LOCAL_LOCAL_CLUSTER_H_

// A whole service on this machine, on loopback only: one coordinator and some
// agents with one slot each, as child processes. Owned by `evenstep local` on
// its main thread; ends every child on every way out.

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/local/child_process.h"

namespace evenstep::cli {

struct LocalClusterOptions {
  std::string bin_dir;      // evenstep, evenstep-coordinator, evenstep-worker
  std::string folder;       // private: store, sockets, port file
  std::string log_dir;      // coordinator.log, node-0.log, ...
  std::string output_root;  // agents write results there
  std::string trainer;      // of the agents; empty: evenstep-trainer there
  int num_nodes = 1;
  absl::Duration start_timeout = absl::Seconds(30);
  // Agents end their trainers sooner, unless those write weights.
  absl::Duration stop_grace = absl::Seconds(70);
  std::stop_token stop;  // gives the start up
};

class LocalCluster {
 public:
  // DEADLINE_EXCEEDED, CANCELLED, or INTERNAL with a dead child's last words.
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Start(
      const LocalClusterOptions& options);
  ~LocalCluster();

  // HOST:PORT of the coordinator.
  const std::string& address() const { return address_; }
  // INTERNAL, with its last words, when a child has ended.
  absl::Status CheckChildren();
  // Agents first, which end their trainers; then the coordinator.
  void Stop();

 private:
  explicit LocalCluster(const LocalClusterOptions& options)
      : options_(options) {}
  absl::Status StartChild(const std::string& program, const std::string& log,
                          const std::vector<std::string>& arguments);
  absl::Status StartCoordinator();
  absl::Status WaitForPort(const std::string& port_file);
  absl::Status StartAgent(int index);

  const LocalClusterOptions options_;
  std::string address_;
  std::vector<ChildProcess> children_;  // the coordinator first
};

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_LOCAL_LOCAL_CLUSTER_H_
