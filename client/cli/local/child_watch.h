#ifndef EVENSTEP_CLIENT_CLI_LOCAL_CHILD_WATCH_H_
#define EVENSTEP_CLIENT_CLI_LOCAL_CHILD_WATCH_H_

// Looks after a LocalCluster's children while the main thread waits for the
// job: when one ends, it says so through a stop source. Has a thread of its
// own, which alone touches the cluster until Finish or the destructor.

#include <stop_token>
#include <thread>

#include "absl/status/status.h"
#include "client/cli/local/local_cluster.h"

namespace evenstep::cli {

class ChildWatch {
 public:
  ChildWatch(LocalCluster& cluster, std::stop_source on_loss);
  ~ChildWatch();
  ChildWatch(const ChildWatch&) = delete;
  ChildWatch& operator=(const ChildWatch&) = delete;

  // Ends the watch; not OK when a child has ended.
  absl::Status Finish();

 private:
  void Run(const std::stop_token& finished);

  LocalCluster& cluster_;
  std::stop_source on_loss_;
  absl::Status status_;  // read after the thread has been joined
  std::jthread thread_;  // last: uses the others
};

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_LOCAL_CHILD_WATCH_H_
