#include "base/port_knocker.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "base/unique_fd.h"

namespace evenstep {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(5);

sockaddr_in Parse(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in parsed = {};
  parsed.sin_family = AF_INET;
  uint32_t port = 0;
  if (colon != std::string::npos &&
      absl::SimpleAtoi(address.substr(colon + 1), &port)) {
    parsed.sin_port = htons(static_cast<uint16_t>(port));
  }
  const std::string host = address.substr(0, colon);
  if (inet_pton(AF_INET, host.c_str(), &parsed.sin_addr) != 1 ||
      parsed.sin_addr.s_addr == htonl(INADDR_ANY)) {
    parsed.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  return parsed;
}

void Knock(const sockaddr_in& address) {
  const UniqueFd fd(
      socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return;
  (void)connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                sizeof(address));
}

}  // namespace

PortKnocker::PortKnocker(const std::string& address)
    : thread_([this, parsed = Parse(address)] {
        do {
          Knock(parsed);
        } while (!done_.WaitFor(kInterval));
      }) {
  pthread_setname_np(thread_.native_handle(), "port-knocker");
}

PortKnocker::~PortKnocker() {
  done_.Notify();
  thread_.join();
}

}  // namespace evenstep
