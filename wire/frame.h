#ifndef EVENSTEP_WIRE_FRAME_H_
#define EVENSTEP_WIRE_FRAME_H_

// Length-prefixed protobuf messages over a stream socket: 4 bytes, big endian,
// then the message. Used between an agent and its trainers. FrameSocket owns
// its descriptor. One thread may read while others write: writes are
// serialised, reads are not.

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "google/protobuf/message_lite.h"

namespace evenstep::wire {

inline constexpr uint32_t kMaxFrameBytes = 64 << 20;

class FrameSocket {
 public:
  // Takes a connected stream socket.
  explicit FrameSocket(int fd);
  ~FrameSocket();
  FrameSocket(const FrameSocket&) = delete;
  FrameSocket& operator=(const FrameSocket&) = delete;

  // Blocks until all is written. UNAVAILABLE: the other end is gone.
  // RESOURCE_EXHAUSTED: larger than kMaxFrameBytes. Never raises SIGPIPE.
  absl::Status Send(const google::protobuf::MessageLite& message)
      ABSL_LOCKS_EXCLUDED(write_mutex_);
  // Blocks for one frame. UNAVAILABLE: the other end closed between frames or
  // Shutdown was called; DATA_LOSS: cut in the middle, too long, or unreadable.
  absl::Status Receive(google::protobuf::MessageLite* message);
  // Wakes a blocked Receive and Send; further calls fail. Any thread.
  void Shutdown();

 private:
  const int fd_;
  absl::Mutex write_mutex_;
};

}  // namespace evenstep::wire

#endif  // EVENSTEP_WIRE_FRAME_H_
