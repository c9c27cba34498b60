#include "base/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace evenstep {
namespace {

// Numeric addresses only: a resolver may give any address for a name such as
// 127.example.org.
bool IsLoopback(absl::string_view host) {
  if (host == "localhost") return true;
  const std::string text(host);
  in_addr v4;
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127;
  }
  return host == "[::1]" || host == "::1";
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(absl::string_view setting,
                                       absl::string_view address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat(setting, "=", address,
                     " is not HOST:PORT with a port of 0 to 65535, for example "
                     "127.0.0.1:7070"));
  }
  return HostPort{std::string(address.substr(0, colon)), port};
}

absl::Status CheckListenHost(absl::string_view setting, absl::string_view host,
                             RemoteAccess access) {
  if (access == RemoteAccess::kAllowed || IsLoopback(host)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      setting, "=", host,
      " is not a loopback address, and connections are neither encrypted nor "
      "authenticated; use 127.0.0.1, or accept that with "
      "--insecure-allow-remote"));
}

absl::Status CheckListenAddress(absl::string_view setting,
                                absl::string_view address,
                                RemoteAccess access) {
  EVENSTEP_ASSIGN_OR_RETURN(const HostPort parts,
                            ParseHostPort(setting, address));
  return CheckListenHost(setting, parts.host, access);
}

}  // namespace evenstep
