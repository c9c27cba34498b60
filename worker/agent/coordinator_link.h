#ifndef EVENSTEP_WORKER_AGENT_COORDINATOR_LINK_H_
#define EVENSTEP_WORKER_AGENT_COORDINATOR_LINK_H_

// The agent's stream to the coordinator: greeting, heartbeats, and coming back
// after it breaks, without losing what was said (Outbox). Lives on the agent's
// loop, which outlives it and is stopped before it is destroyed.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/backoff.h"
#include "base/event_loop.h"
#include "evenstep/v1/agent.grpc.pb.h"
#include "evenstep/v1/agent.pb.h"
#include "rpc/client_stream.h"
#include "worker/agent/agent_metrics.h"

namespace evenstep::agent {

// What the agent has to tell the coordinator, kept until it is safe to forget.
// The stream has no acknowledgements, so a message counts as delivered once it
// has been on an unbroken stream for longer than a dead connection can go
// unnoticed (kForgetAfter, above keepalive interval and time-out). After a
// reconnect everything younger is sent again, in order: the coordinator takes
// repeats of reports (same generation, step, rank), of exits and of log batches
// (by the number of their first line) as one.
//
// Bounded in messages and bytes. Only log batches are ever thrown away, and
// counted; the coordinator sees the gap in the lines. A report that is lost
// would leave its job without the next plan, so reports have a larger bound,
// and one beyond it is refused: its job has to end. Pure; one thread.

inline constexpr absl::Duration kForgetAfter = absl::Seconds(30);

struct OutboxLimits {
  // With logs in it.
  size_t messages = 16384;
  size_t bytes = 32 << 20;
  // Without any.
  size_t report_messages = 1 << 20;
  size_t report_bytes = 256 << 20;
};

class Outbox {
 public:
  explicit Outbox(const OutboxLimits& limits = {}) : limits_(limits) {}

  // Returns how many log batches that had not been sent were thrown away, this
  // one perhaps. RESOURCE_EXHAUSTED: a report that does not fit; starts and
  // ends of ranks and attempts always do.
  absl::StatusOr<int> Add(v1::AgentMessage message);
  // The next message to send; null: none. Valid until the next call.
  const v1::AgentMessage* Next() const;
  // The message of Next went to a stream at `now` (monotonic).
  void MarkSent(absl::Duration now);
  // A new stream: what may be lost is to be sent again.
  void Reconnected(absl::Duration now);

  size_t size() const { return entries_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    v1::AgentMessage message;
    size_t bytes = 0;
    absl::Duration sent = absl::ZeroDuration();
  };

  bool Exceeds(size_t bytes, size_t max_messages, size_t max_bytes) const {
    return entries_.size() >= max_messages || bytes_ + bytes > max_bytes;
  }
  void Forget(absl::Duration now);
  // Makes room by log batches. Returns how many of them had not been sent.
  int ThrowLogsAway(size_t bytes);
  void Erase(size_t index);

  const OutboxLimits limits_;
  size_t bytes_ = 0;
  std::deque<Entry> entries_;  // the first num_sent_ have been sent
  size_t num_sent_ = 0;
  size_t num_logs_ = 0;
};

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
