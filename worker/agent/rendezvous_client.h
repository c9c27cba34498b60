#ifndef EVENSTEP_WORKER_AGENT_RENDEZVOUS_CLIENT_H_
#define EVENSTEP_WORKER_AGENT_RENDEZVOUS_CLIENT_H_

// The trainers' way to the coordinator's key-value exchange: asynchronous, with
// repeats while the coordinator cannot be reached. Called on the agent's loop;
// answers are posted there. The loop outlives it, and is stopped before it
// goes.

#include <functional>
#include <memory>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/event_loop.h"
#include "evenstep/v1/agent.grpc.pb.h"

namespace evenstep::agent {

class RendezvousClient {
 public:
  using Answer = std::function<void(absl::StatusOr<v1::RendezvousResponse>)>;

  RendezvousClient(std::shared_ptr<grpc::Channel> channel, EventLoop& loop);
  ~RendezvousClient();  // Shutdown

  // Sends the request; both a set and a get may be repeated. DEADLINE_EXCEEDED
  // or UNAVAILABLE after `budget`, ABORTED when the generation is over.
  void Call(const v1::RendezvousRequest& request, absl::Duration budget,
            Answer answer);

  // Cancels what is under way and waits for it. Not on the loop.
  void Shutdown() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Pending;

  void Try(const std::shared_ptr<Pending>& pending) ABSL_LOCKS_EXCLUDED(mutex_);
  void Done(const std::shared_ptr<Pending>& pending, const grpc::Status& status)
      ABSL_LOCKS_EXCLUDED(mutex_);

  v1::AgentService::Stub stub_;
  EventLoop& loop_;
  absl::Mutex mutex_;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::shared_ptr<Pending>> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_RENDEZVOUS_CLIENT_H_
