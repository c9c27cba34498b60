#ifndef EVENSTEP_BASE_LISTEN_ADDRESS_H_
#define EVENSTEP_BASE_LISTEN_ADDRESS_H_

// The one rule for everything that listens: gRPC, metrics, and the trainers'
// data path. Without TLS only this machine may connect, unless the operator
// has accepted that with --insecure-allow-remote. Stateless.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace evenstep {

struct HostPort {
  std::string host;  // an IPv6 address keeps its brackets
  int port = 0;
};

enum class RemoteAccess { kRefused, kAllowed };

inline RemoteAccess AllowRemote(bool insecure_allow_remote) {
  return insecure_allow_remote ? RemoteAccess::kAllowed
                               : RemoteAccess::kRefused;
}

// INVALID_ARGUMENT: not HOST:PORT with a port of 0 to 65535. `setting` names
// the flag in errors, here and below.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view setting,
                                       absl::string_view address);

// FAILED_PRECONDITION: `host` is not loopback and remote access is refused.
absl::Status CheckListenHost(absl::string_view setting, absl::string_view host,
                             RemoteAccess access);

// Both of the above, on "HOST:PORT".
absl::Status CheckListenAddress(absl::string_view setting,
                                absl::string_view address, RemoteAccess access);

}  // namespace evenstep

#endif  // EVENSTEP_BASE_LISTEN_ADDRESS_H_
