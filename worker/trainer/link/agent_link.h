#ifndef EVENSTEP_WORKER_TRAINER_LINK_AGENT_LINK_H_
#define EVENSTEP_WORKER_TRAINER_LINK_AGENT_LINK_H_

// The rank's end of the agent's socket. A reader thread takes what the agent
// sends: plans go into the plan book, rendezvous answers to whoever waits, an
// abandon or a closed socket to callbacks. Send and the rendezvous may be
// called from any thread. The destructor ends the reader and joins it.
//
//   EVENSTEP_ASSIGN_OR_RETURN(auto link, AgentLink::Connect(path, rank));
//   EVENSTEP_ASSIGN_OR_RETURN(v1::Start start, link->ReceiveStart());
//   link->StartReading(&plans, {.on_abandon = ..., .on_gone = ...});

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "evenstep/trainer/v1/trainer.pb.h"
#include "wire/frame.h"
#include "worker/trainer/comm/rendezvous_store.h"
#include "worker/trainer/link/agent_channel.h"
#include "worker/trainer/link/plan_book.h"

namespace evenstep::trainer {

class AgentLink : public AgentChannel, public RendezvousStore {
 public:
  // Called on the reader thread; they may block and may end the process.
  struct Callbacks {
    std::function<void(const v1::AbandonStep&)> on_abandon;
    // The agent closed the socket, was silent for longer than Start allows, or
    // sent what cannot be read.
    std::function<void(const absl::Status&)> on_gone;
  };

  // Connects to the agent's socket and says hello. UNAVAILABLE with the path.
  static absl::StatusOr<std::unique_ptr<AgentLink>> Connect(
      const std::string& socket_path, int rank);
  // Takes a connected socket.
  explicit AgentLink(int fd);
  ~AgentLink() override;

  // Blocks for the first message, half a minute at most. INVALID_ARGUMENT: it
  // is another one. Before StartReading.
  absl::StatusOr<v1::Start> ReceiveStart();
  // Once. `plans` outlives the link.
  void StartReading(PlanBook* plans, Callbacks callbacks);

  absl::Status Send(const v1::ToAgent& message) override;
  bool StopRequested() const override ABSL_LOCKS_EXCLUDED(mutex_);

  // RendezvousStore. Get also fails with UNAVAILABLE when the agent is gone.
  absl::Status Set(const std::string& key, const std::string& value) override;
  absl::StatusOr<std::string> Get(const std::string& key,
                                  absl::Duration wait) override
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // One blocked Get. Owned by it.
  struct PendingGet {
    bool done = false;
    absl::StatusOr<std::string> value = absl::UnknownError("no answer yet");
  };

  void LimitSilence(absl::Duration limit);
  void ReadLoop();
  void Handle(const v1::ToTrainer& message);
  void HandlePlan(const evenstep::v1::StepPlan& proto);
  void HandleValue(const v1::RendezvousValue& value)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Fails every blocked and future Get.
  void CloseRendezvous(absl::Status why) ABSL_LOCKS_EXCLUDED(mutex_);
  bool closing() const ABSL_LOCKS_EXCLUDED(mutex_);

  const int fd_;  // socket_'s
  wire::FrameSocket socket_;
  PlanBook* plans_ = nullptr;
  Callbacks callbacks_;

  mutable absl::Mutex mutex_;
  SteadyCondition answered_;  // a PendingGet is done
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_requested_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status rendezvous_status_ ABSL_GUARDED_BY(mutex_);
  int64_t next_request_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<int64_t, PendingGet*> pending_ ABSL_GUARDED_BY(mutex_);

  std::thread reader_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LINK_AGENT_LINK_H_
