// Bytes from a trainer or agent that has gone mad: read as frames of plans.
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "google/protobuf/stubs/logging.h"
#include "wire/frame.h"
#include "wire/step_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  constexpr size_t kSocketBufferBytes = 1 << 15;  // one send may not block
  if (size > kSocketBufferBytes) return 0;
  const google::protobuf::LogSilencer silencer;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 0;
  evenstep::wire::FrameSocket socket(ends[0]);
  const ssize_t sent = send(ends[1], bytes, size, MSG_NOSIGNAL);
  close(ends[1]);
  evenstep::v1::StepPlan proto;
  while (sent >= 0 && socket.Receive(&proto).ok()) {
    evenstep::wire::FromProto(proto).status().IgnoreError();
  }
  return 0;
}
