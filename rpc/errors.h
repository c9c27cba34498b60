#ifndef EVENSTEP_RPC_ERRORS_H_
#define EVENSTEP_RPC_ERRORS_H_

// Errors on the wire: absl::Status to grpc::Status and back, with a
// machine-readable reason that travels as google.rpc.ErrorInfo (domain
// "evenstep") in the standard details of a gRPC status. Debian installs no
// googleapis, so proto/evenstep/v1/errors.proto declares messages that are the
// same on the wire; any gRPC client reads them as google.rpc. Pure functions.
//
//   return rpc::WithReason(absl::NotFoundError("no job 'a'"), "JOB_NOT_FOUND");

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/status.h"

namespace evenstep::rpc {

inline constexpr char kErrorDomain[] = "evenstep";
// Reason of a call that a stopping server refuses or ends.
inline constexpr char kShuttingDown[] = "SHUTTING_DOWN";

// The error with a reason such as INFEASIBLE_PLAN. OK stays as it is.
absl::Status WithReason(absl::Status status, absl::string_view reason);
// The reason of an error; empty when it has none.
std::string ReasonOf(const absl::Status& status);

grpc::Status ToGrpc(const absl::Status& status);
// Details of another domain, or broken ones, are left out.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace evenstep::rpc

#endif  // EVENSTEP_RPC_ERRORS_H_
