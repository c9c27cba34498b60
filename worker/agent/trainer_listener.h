#ifndef EVENSTEP_WORKER_AGENT_TRAINER_LISTENER_H_
#define EVENSTEP_WORKER_AGENT_TRAINER_LISTENER_H_

// The Unix socket on which one attempt's trainers report. Reads each
// connection's TrainerHello on its own thread and hands the connection over.
// The callback runs on that thread. The destructor joins and removes the file.

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "wire/frame.h"

namespace evenstep::agent {

struct TrainerConnection {
  int rank = -1;
  pid_t pid = -1;  // as the kernel says, not the peer
  std::shared_ptr<wire::FrameSocket> socket;
};

class TrainerListener {
 public:
  using Callback = std::function<void(TrainerConnection)>;

  // Replaces a stale file of that name.
  static absl::StatusOr<std::unique_ptr<TrainerListener>> Open(
      const std::string& path, Callback callback);
  ~TrainerListener();
  TrainerListener(const TrainerListener&) = delete;
  TrainerListener& operator=(const TrainerListener&) = delete;

 private:
  TrainerListener(std::string path, UniqueFd fd, Callback callback);
  void Run();
  bool MayTryAgain(int error);
  void Greet(UniqueFd connection);

  const std::string path_;
  const UniqueFd fd_;
  const Callback callback_;
  bool told_full_ = false;  // on the thread
  SteadyNotification stop_;
  std::thread thread_;
};

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_TRAINER_LISTENER_H_
