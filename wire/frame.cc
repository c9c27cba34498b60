#include "wire/frame.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace evenstep::wire {
namespace {

constexpr size_t kPrefixBytes = 4;

absl::Status Gone(absl::string_view what, int error) {
  return absl::UnavailableError(
      absl::StrCat(what, ": ", error == 0 ? "closed" : strerror(error)));
}

absl::Status WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return Gone("cannot send a frame", errno);
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

// Reads until `size` bytes are there or the stream ends; returns how many came.
absl::StatusOr<size_t> ReadUpTo(int fd, char* out, size_t size) {
  size_t got = 0;
  while (got < size) {
    const ssize_t n = recv(fd, out + got, size - got, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Gone("cannot receive a frame", errno);
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  return got;
}

void PutPrefix(uint32_t size, char* out) {
  for (size_t i = 0; i < kPrefixBytes; ++i) {
    out[i] = static_cast<char>(size >> (8 * (kPrefixBytes - 1 - i)));
  }
}

uint32_t GetPrefix(const char* in) {
  uint32_t size = 0;
  for (size_t i = 0; i < kPrefixBytes; ++i) {
    size = size << 8 | static_cast<unsigned char>(in[i]);
  }
  return size;
}

// The length of the next frame.
absl::StatusOr<uint32_t> ReadPrefix(int fd) {
  char prefix[kPrefixBytes];
  EVENSTEP_ASSIGN_OR_RETURN(const size_t got,
                            ReadUpTo(fd, prefix, kPrefixBytes));
  if (got == 0) return Gone("no further frame", 0);
  if (got < kPrefixBytes) {
    return absl::DataLossError(
        absl::StrCat("frame cut after ", got, " bytes of its length"));
  }
  const uint32_t size = GetPrefix(prefix);
  if (size > kMaxFrameBytes) {
    return absl::DataLossError(
        absl::StrCat("frame of ", size, " bytes; at most ", kMaxFrameBytes));
  }
  return size;
}

// The body grows as bytes come, so that a wrong length costs no memory.
absl::StatusOr<std::string> ReadBody(int fd, size_t size) {
  constexpr size_t kChunkBytes = 1 << 20;
  std::string body;
  while (body.size() < size) {
    const size_t before = body.size();
    const size_t want = std::min(size - before, kChunkBytes);
    body.resize(before + want);
    EVENSTEP_ASSIGN_OR_RETURN(const size_t got,
                              ReadUpTo(fd, body.data() + before, want));
    if (got < want) {
      return absl::DataLossError(absl::StrCat("frame cut after ", before + got,
                                              " of ", size, " bytes"));
    }
  }
  return body;
}

}  // namespace

FrameSocket::FrameSocket(int fd) : fd_(fd) {}

FrameSocket::~FrameSocket() { close(fd_); }

absl::Status FrameSocket::Send(const google::protobuf::MessageLite& message) {
  const size_t size = message.ByteSizeLong();
  if (size > kMaxFrameBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "message of ", size, " bytes; a frame holds ", kMaxFrameBytes));
  }
  std::string frame(kPrefixBytes, '\0');
  PutPrefix(static_cast<uint32_t>(size), frame.data());
  if (!message.AppendToString(&frame)) {
    return absl::InternalError("message cannot be serialised");
  }
  absl::MutexLock lock(&write_mutex_);
  return WriteAll(fd_, frame);
}

absl::Status FrameSocket::Receive(google::protobuf::MessageLite* message) {
  EVENSTEP_ASSIGN_OR_RETURN(const uint32_t size, ReadPrefix(fd_));
  EVENSTEP_ASSIGN_OR_RETURN(const std::string body, ReadBody(fd_, size));
  if (!message->ParseFromString(body)) {
    return absl::DataLossError(
        absl::StrCat("frame of ", size, " bytes is not a ",
                     message->GetTypeName(), " message"));
  }
  return absl::OkStatus();
}

void FrameSocket::Shutdown() { shutdown(fd_, SHUT_RDWR); }

}  // namespace evenstep::wire
