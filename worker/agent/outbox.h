#ifndef EVENSTEP_WORKER_AGENT_OUTBOX_H_
#define EVENSTEP_WORKER_AGENT_OUTBOX_H_

// What the agent has to tell the coordinator, kept until it is safe to forget.
// The stream has no acknowledgements, so a message counts as delivered once it
// has been on an unbroken stream for longer than a dead connection can go
// unnoticed (kForgetAfter, above keepalive interval and time-out). After a
// reconnect everything younger is sent again, in order: the coordinator takes
// repeats of reports (same generation, step, rank), of exits and of log batches
// (by the number of their first line) as one. Bounded in messages and bytes: a
// full outbox forgets what was sent, then throws away its oldest log batch, or
// else its oldest message, and counts it; the coordinator sees the gap in the
// lines. Pure; one thread.

#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/time/time.h"
#include "evenstep/v1/agent.pb.h"

namespace evenstep::agent {

inline constexpr absl::Duration kForgetAfter = absl::Seconds(30);

class Outbox {
 public:
  explicit Outbox(size_t max_messages = 16384, size_t max_bytes = 32 << 20)
      : max_messages_(max_messages), max_bytes_(max_bytes) {}

  // Returns how many messages were thrown away to make room.
  int Add(v1::AgentMessage message);
  // The next message to send; null: none. Valid until the next call.
  const v1::AgentMessage* Next() const;
  // The message of Next went to a stream at `now` (monotonic).
  void MarkSent(absl::Duration now);
  // A new stream: what may be lost is to be sent again.
  void Reconnected(absl::Duration now);

  size_t num_unsent() const { return entries_.size() - num_sent_; }
  size_t size() const { return entries_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    v1::AgentMessage message;
    size_t bytes = 0;
    absl::Duration sent = absl::ZeroDuration();
  };

  void Forget(absl::Duration now);
  void ThrowOneAway();
  void Erase(std::deque<Entry>::iterator entry);

  const size_t max_messages_;
  const size_t max_bytes_;
  size_t bytes_ = 0;
  std::deque<Entry> entries_;  // the first num_sent_ have been sent
  size_t num_sent_ = 0;
};

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_OUTBOX_H_
