#ifndef EVENSTEP_RPC_CHANNEL_H_
#define EVENSTEP_RPC_CHANNEL_H_

// The client's way to a server: a channel with the agreed keepalive and message
// bounds, and deadlines by the monotonic clock. Thread-safe.

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"

namespace evenstep::rpc {

// Plain text for now: use it on loopback only. Connects on first use, and again
// within two seconds of a server's return.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address);

// A moment of the monotonic clock for gRPC, which takes a std::chrono time for
// one of the wall clock.
gpr_timespec SteadyDeadline(absl::Duration from_now);

void SetDeadline(grpc::ClientContext& context, absl::Duration deadline);

}  // namespace evenstep::rpc

#endif  // EVENSTEP_RPC_CHANNEL_H_
