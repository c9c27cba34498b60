#ifndef EVENSTEP_RPC_TESTING_CALL_UNARY_H_
#define EVENSTEP_RPC_TESTING_CALL_UNARY_H_

// One blocking unary call of a test.

#include "absl/status/statusor.h"
#include "rpc/channel.h"
#include "rpc/errors.h"

namespace evenstep::rpc {

// `method(context, response)` is a call on a stub:
//
//   auto job = rpc::CallUnary<v1::GetResponse>([&](auto* c, auto* r) {
//     return stub->Get(c, request, r);
//   });
template <typename Response, typename Method>
absl::StatusOr<Response> CallUnary(Method method) {
  grpc::ClientContext context;
  SetDeadline(context, absl::Seconds(10));
  Response response;
  const absl::Status status = FromGrpc(method(&context, &response));
  if (!status.ok()) return status;
  return response;
}

}  // namespace evenstep::rpc

#endif  // EVENSTEP_RPC_TESTING_CALL_UNARY_H_
