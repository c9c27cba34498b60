// Bytes from a trainer that has gone mad: read as frames, checked, and turned
// into what the coordinator would hear, which must be of the trainer's own
// rank.
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "google/protobuf/stubs/logging.h"
#include "wire/frame.h"
#include "worker/agent/trainer_frames.h"

namespace {

constexpr int kRank = 1;
constexpr int64_t kSteps = 10;

void Must(bool condition) {
  if (!condition) std::abort();
}

void Handle(const evenstep::trainer::v1::ToAgent& frame) {
  if (!evenstep::agent::CheckFrame(frame, kRank, kSteps).ok()) return;
  evenstep::v1::AttemptId id;
  id.set_job_id("job");
  const auto message = evenstep::agent::ForCoordinator(frame, id, kRank);
  if (!message.has_value()) {
    Must(frame.finished().steps_done() <= kSteps);
    return;
  }
  if (message->has_data()) Must(message->data().rank() == kRank);
  if (message->has_started()) Must(message->started().rank() == kRank);
  if (message->has_lengths()) {
    Must(message->lengths().report().rank() == kRank);
    Must(message->lengths().report().step() < kSteps);
  }
  if (message->has_step()) Must(message->step().report().rank() == kRank);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  constexpr size_t kSocketBufferBytes = 1 << 15;  // one send may not block
  if (size > kSocketBufferBytes) return 0;
  const google::protobuf::LogSilencer silencer;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 0;
  evenstep::wire::FrameSocket socket(ends[0]);
  const ssize_t sent = send(ends[1], bytes, size, MSG_NOSIGNAL);
  close(ends[1]);
  evenstep::trainer::v1::ToAgent frame;
  while (sent >= 0 && socket.Receive(&frame).ok()) Handle(frame);
  return 0;
}
