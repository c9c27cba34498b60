#ifndef EVENSTEP_WORKER_AGENT_OUTBOX_H_
#define EVENSTEP_WORKER_AGENT_OUTBOX_H_

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

#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "evenstep/v1/agent.pb.h"

namespace evenstep::agent {

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

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_OUTBOX_H_
