#ifndef EVENSTEP_WORKER_AGENT_COORDINATOR_LINK_H_
#define EVENSTEP_WORKER_AGENT_COORDINATOR_LINK_H_

// The agent's stream to the coordinator: greeting, heartbeats, and coming back
// after it breaks, without losing what was said (outbox.h). Lives on the
// agent's loop, which outlives it and is stopped before it is destroyed.

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "base/backoff.h"
#include "base/event_loop.h"
#include "evenstep/v1/agent.grpc.pb.h"
#include "rpc/client_stream.h"
#include "worker/agent/agent_metrics.h"
#include "worker/agent/outbox.h"

namespace evenstep::agent {

struct LinkCallbacks {
  // The greeting of a new stream, with what runs at that moment.
  std::function<v1::AgentHello()> hello;
  // Everything but Welcome.
  std::function<void(const v1::CoordinatorMessage&)> on_message;
  // With each heartbeat, while there is a coordinator.
  std::function<void()> on_beat = [] {};
  // A stream that was open is over.
  std::function<void()> on_lost = [] {};
  // The coordinator does not take this agent and will not: another one has its
  // node's name.
  std::function<void(const absl::Status&)> on_refused = nullptr;
  // The coordinator has been away for longer than trainers may go on without.
  std::function<void()> on_budget_spent;
};

class CoordinatorLink {
 public:
  CoordinatorLink(std::shared_ptr<grpc::Channel> channel, EventLoop& loop,
                  AgentMetrics& metrics, LinkCallbacks callbacks);

  // Opens the first stream; from then on there is one, or soon will be.
  void Start();
  // Sent now, or when there is a stream again. RESOURCE_EXHAUSTED: never, as it
  // is larger than a message may be, or too many reports wait already; the
  // latter never for starts and ends of ranks and attempts.
  absl::Status Send(v1::AgentMessage message);

  // Sends what is queued, closes the stream and opens no other. Returns the
  // stream to wait for outside the loop; null: there is none.
  using Stream =
      rpc::ClientBidiStream<v1::CoordinatorMessage, v1::AgentMessage>;
  std::shared_ptr<Stream> Close();

  bool connected() const { return welcomed_; }
  // How long trainers may go on without a coordinator.
  absl::Duration budget() const { return budget_; }

 private:
  void Connect();
  void OnMessage(int64_t connection, const v1::CoordinatorMessage& message);
  void OnWelcome(const v1::Welcome& welcome);
  void OnDone(int64_t connection, const absl::Status& status);
  void Beat(int64_t connection);
  absl::Duration OnRefused(const absl::Status& status);
  void Flush();
  void WatchBudget();

  EventLoop& loop_;
  AgentMetrics& metrics_;
  const LinkCallbacks callbacks_;
  v1::AgentService::Stub stub_;
  Backoff backoff_;
  Outbox outbox_;
  std::shared_ptr<Stream> stream_;
  int64_t connection_ = 0;  // number of the present stream
  bool welcomed_ = false;
  bool closing_ = false;
  int64_t next_beat_ = 1;
  absl::Duration beat_interval_ = absl::Seconds(1);
  absl::Duration budget_ = absl::Minutes(10);
  int num_refused_ = 0;     // in a row
  absl::Duration lost_at_;  // monotonic, when not welcomed_
};

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_COORDINATOR_LINK_H_
