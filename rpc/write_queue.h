#ifndef EVENSTEP_RPC_WRITE_QUEUE_H_
#define EVENSTEP_RPC_WRITE_QUEUE_H_

// The sending half of a stream as a state machine without gRPC: a queue,
// bounded in messages and bytes, of which one message is in flight, and one end
// that comes after the last message. Used by the stream wrappers only, under
// their mutex; not thread-safe. Whoever gets a step from Next does it and then
// reports StepDone, so at most one operation is ever outstanding.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace evenstep::rpc {

template <typename Message>
class WriteQueue {
 public:
  enum class Step { kNothing, kWrite, kFinish };

  explicit WriteQueue(size_t max_messages, size_t max_bytes = SIZE_MAX)
      : max_messages_(max_messages), max_bytes_(max_bytes) {}

  // RESOURCE_EXHAUSTED: the queue is full, nothing was kept. CANCELLED: the
  // stream is ending or over.
  absl::Status Push(Message message) {
    if (closed_) return absl::CancelledError("the stream has ended");
    if (messages_.size() >= max_messages_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the peer reads too slowly: ", messages_.size(),
          " messages wait, and the stream's queue holds ", max_messages_));
    }
    const size_t bytes = Bytes(message);
    if (!messages_.empty() && bytes_ + bytes > max_bytes_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the peer reads too slowly: ", bytes_,
                       " bytes wait, the next ", "message has ", bytes,
                       ", and the stream's queue holds ", max_bytes_));
    }
    bytes_ += bytes;
    messages_.push_back(std::move(message));
    return absl::OkStatus();
  }

  // No more messages; what is queued is still written, then comes the end.
  void Close() { closed_ = true; }

  // As Close, but what is queued and not in flight is thrown away.
  void Drop() {
    closed_ = true;
    const size_t keep = writing_ ? 1 : 0;
    while (messages_.size() > keep) {
      bytes_ -= Bytes(messages_.back());
      messages_.pop_back();
    }
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
    if (writing_) {
      bytes_ -= Bytes(messages_.front());
      messages_.pop_front();
    }
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
  static size_t Bytes(const Message& message) {
    if constexpr (requires { message.ByteSizeLong(); }) {
      return message.ByteSizeLong();
    } else {
      return sizeof(message);
    }
  }

  const size_t max_messages_;
  const size_t max_bytes_;
  size_t bytes_ = 0;              // of messages_
  std::deque<Message> messages_;  // the first one is in flight if writing_
  bool writing_ = false;
  bool finishing_ = false;
  bool finished_ = false;
  bool closed_ = false;
};

}  // namespace evenstep::rpc

#endif  // EVENSTEP_RPC_WRITE_QUEUE_H_
