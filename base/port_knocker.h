#ifndef EVENSTEP_BASE_PORT_KNOCKER_H_
#define EVENSTEP_BASE_PORT_KNOCKER_H_

// While it lives, connects to a local TCP port every few milliseconds and hangs
// up. The metrics server's library looks only every two seconds whether it is
// to stop, unless somebody connects; so its owners hold one of these while they
// stop it. Failures to connect are no errors. The thread is joined by the
// destructor.
//
//   const PortKnocker knocker(address);
//   exposer = nullptr;

#include <string>
#include <thread>

#include "base/clock.h"

namespace evenstep {

class PortKnocker {
 public:
  // "HOST:PORT"; a host that is no IPv4 address, or stands for any, is taken
  // for the loopback.
  explicit PortKnocker(const std::string& address);
  ~PortKnocker();
  PortKnocker(const PortKnocker&) = delete;
  PortKnocker& operator=(const PortKnocker&) = delete;

 private:
  SteadyNotification done_;
  std::thread thread_;
};

}  // namespace evenstep

#endif  // EVENSTEP_BASE_PORT_KNOCKER_H_
