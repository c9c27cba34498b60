#ifndef EVENSTEP_WORKER_AGENT_TRAINER_H_
#define EVENSTEP_WORKER_AGENT_TRAINER_H_

// One trainer process and its threads: one waits for its end, one reads its
// output, and once it has connected one reads and one writes its socket, so
// that a trainer that hangs blocks nobody else. Made and called on the agent's
// loop; callbacks are posted there. on_end comes last and once, after every
// frame and line that the process left behind; only then may the object be
// destroyed (otherwise the destructor kills the process and waits).

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/event_loop.h"
#include "evenstep/trainer/v1/trainer.pb.h"
#include "worker/agent/output_reader.h"
#include "worker/agent/process.h"
#include "worker/agent/trainer_listener.h"

namespace evenstep::agent {

struct TrainerOptions {
  std::string binary;
  std::string socket_path;
  int rank = 0;
  std::string log_path;
  double lines_per_second = 1000;
};

struct TrainerEnd {
  ProcessEnd process;
  std::string last_words;
};

struct TrainerCallbacks {
  std::function<void(const trainer::v1::ToAgent&)> on_frame = nullptr;
  std::function<void(OutputLines)> on_lines = nullptr;
  std::function<void(TrainerEnd)> on_end = nullptr;
};

class Trainer {
 public:
  // Starts `binary --socket PATH --rank R`.
  static absl::StatusOr<std::unique_ptr<Trainer>> Start(
      const TrainerOptions& options, EventLoop& loop,
      TrainerCallbacks callbacks);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  pid_t pid() const { return pid_; }
  int64_t start_ticks() const { return start_ticks_; }

  // Takes the trainer's connection. FAILED_PRECONDITION: it has one, or is
  // ending.
  absl::Status Attach(std::shared_ptr<wire::FrameSocket> socket)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Queues a message, also before the trainer has connected.
  // RESOURCE_EXHAUSTED: it reads too slowly.
  absl::Status Send(trainer::v1::ToTrainer message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Lets it know that the agent runs, unless something waits for it anyway.
  void KeepAlive() ABSL_LOCKS_EXCLUDED(mutex_);
  // SIGKILL to the process and its group.
  void Kill() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Trainer(SpawnedProcess process, const TrainerOptions& options,
          EventLoop& loop, TrainerCallbacks callbacks);

  void WaitForEnd() ABSL_LOCKS_EXCLUDED(mutex_);
  void CloseSocket() ABSL_LOCKS_EXCLUDED(mutex_);
  void ReadFrames(wire::FrameSocket* socket);
  void WriteFrames(wire::FrameSocket* socket) ABSL_LOCKS_EXCLUDED(mutex_);
  bool TakeOutgoing(trainer::v1::ToTrainer* message)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const pid_t pid_;
  const int64_t start_ticks_;
  EventLoop& loop_;
  // Shared with posted functions, which may outlive this object.
  const std::shared_ptr<const TrainerCallbacks> callbacks_;
  OutputReader output_;
  SteadyNotification reader_done_;
  absl::Mutex mutex_;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;  // the pid may be another's
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<trainer::v1::ToTrainer> outgoing_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<wire::FrameSocket> socket_ ABSL_GUARDED_BY(mutex_);
  std::thread reader_;
  std::thread writer_;
  std::thread waiter_;  // last: it uses all of the above
};

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_TRAINER_H_
