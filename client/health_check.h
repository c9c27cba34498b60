#ifndef EVENSTEP_CLIENT_HEALTH_CHECK_H_
#define EVENSTEP_CLIENT_HEALTH_CHECK_H_

// One call of the standard health service (grpc.health.v1), whose generated
// code Debian does not install: the two messages have one field each, so they
// are read by hand. Blocks; thread-safe.

#include <memory>

#include "grpcpp/grpcpp.h"

namespace evenstep::client {

// Asks about the whole server. `serving` is set when the call succeeds.
grpc::Status CheckHealthOnce(const std::shared_ptr<grpc::Channel>& channel,
                             grpc::ClientContext* context, bool* serving);

}  // namespace evenstep::client

#endif  // EVENSTEP_CLIENT_HEALTH_CHECK_H_
