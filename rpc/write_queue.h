#ifndef EVENSTEP_RPC_WRITE_QUEUE_H_
#define EVENSTEP_RPC_WRITE_QUEUE_H_

// The sending half of a stream as a state machine without gRPC: a bounded queue
// of which one message is in flight, and one end that comes after the last
// message. Used by the stream wrappers only, under their mutex; not
// thread-safe. Whoever gets a step from Next does it and then reports StepDone,
// so at most one operation is ever outstanding.

#include <cstddef>
#include <deque>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace evenstep::rpc {

template <typename Message>
class WriteQueue {
 public:
  enum class Step { kNothing, kWrite, kFinish };

  explicit WriteQueue(size_t max_messages) : max_messages_(max_messages) {}

  // RESOURCE_EXHAUSTED: the queue is full, nothing was kept. CANCELLED: the
  // stream is ending or over.
  absl::Status Push(Message message) {
    if (closed_) return absl::CancelledError("the stream has ended");
    if (messages_.size() >= max_messages_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the peer reads too slowly: ", messages_.size(),
          " messages wait, and the stream's queue holds ", max_messages_));
    }
    messages_.push_back(std::move(message));
    return absl::OkStatus();
  }

  // No more messages; what is queued is still written, then comes the end.
  void Close() { closed_ = true; }

  // As Close, but what is queued and not in flight is thrown away.
  void Drop() {
    closed_ = true;
    const size_t keep = writing_ ? 1 : 0;
    while (messages_.size() > keep) messages_.pop_back();
  }

  // What the caller has to start now. kFinish is given exactly once.
  Step Next() {
    if (busy() || finished_) return Step::kNothing;
    if (!messages_.empty()) {
      writing_ = true;
      return Step::kWrite;
    }
    if (!closed_) return Step::kNothing;
    finishing_ = true;
    finished_ = true;
    return Step::kFinish;
  }

  // The message to write, from kWrite until StepDone.
  const Message& in_flight() const { return messages_.front(); }

  // The started step is over. A failed one breaks the stream for good.
  void StepDone(bool ok) {
    if (writing_) messages_.pop_front();
    writing_ = false;
    finishing_ = false;
    if (!ok) Drop();
  }

  // A started step is outstanding.
  bool busy() const { return writing_ || finishing_; }
  bool closed() const { return closed_; }
  bool empty() const { return messages_.empty(); }
  size_t size() const { return messages_.size(); }

 private:
  const size_t max_messages_;
  std::deque<Message> messages_;  // the first one is in flight if writing_
  bool writing_ = false;
  bool finishing_ = false;
  bool finished_ = false;
  bool closed_ = false;
};

}  // namespace evenstep::rpc

#endif  // EVENSTEP_RPC_WRITE_QUEUE_H_
