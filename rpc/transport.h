#ifndef EVENSTEP_RPC_TRANSPORT_H_
#define EVENSTEP_RPC_TRANSPORT_H_

// Numbers that both ends of a connection must agree on: a client that pings
// more often than the server allows is cut off. Constants only.

#include "absl/time/time.h"

namespace evenstep::rpc {

// A connection that is silent for this long is pinged, by either end.
inline constexpr absl::Duration kKeepaliveInterval = absl::Seconds(10);
// A ping that is not answered for this long ends the connection.
inline constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(5);
// The server accepts pings this often: half the interval, for late timers.
inline constexpr absl::Duration kMinPingInterval = absl::Seconds(5);
// Largest message either end accepts: a plan of many thousand samples fits.
inline constexpr int kMaxMessageBytes = 16 << 20;

// Initial metadata of JobService.List: the server's version.
inline constexpr char kVersionMetadata[] = "evenstep-version";

}  // namespace evenstep::rpc

#endif  // EVENSTEP_RPC_TRANSPORT_H_
