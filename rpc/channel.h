#ifndef EVENSTEP_RPC_CHANNEL_H_
#define EVENSTEP_RPC_CHANNEL_H_

// The client's way to a server: a channel with the agreed keepalive and message
// bounds, and unary calls with a deadline and, where repeating is harmless,
// retries. Thread-safe; CallUnary blocks its caller.

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "rpc/errors.h"

namespace evenstep::rpc {

// Plain text for now: use it on loopback only. Connects on first use, and again
// within two seconds of a server's return.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address);

enum class Repeat { kNever, kWhileUnavailable };

struct CallOptions {
  // Of each attempt.
  absl::Duration deadline = absl::Seconds(10);
  // kWhileUnavailable only for idempotent calls.
  Repeat repeat = Repeat::kNever;
  // All attempts and pauses together, when repeating.
  absl::Duration budget = absl::Seconds(30);
};

// A moment of the monotonic clock for gRPC, which takes a std::chrono time for
// one of the wall clock.
gpr_timespec SteadyDeadline(absl::Duration from_now);

void SetDeadline(grpc::ClientContext& context, absl::Duration deadline);

// Runs `attempt` under the options, with capped, jittered pauses; the part of
// CallUnary that needs no types.
absl::Status CallWithRepeat(
    const CallOptions& options,
    const std::function<grpc::Status(grpc::ClientContext&)>& attempt);

// One unary call. `method(context, request, response)` is a call on a stub.
//
//   auto job = rpc::CallUnary<v1::GetResponse>(
//       options, [&](auto* context, auto* response) {
//         return stub->Get(context, request, response);
//       });
template <typename Response, typename Method>
absl::StatusOr<Response> CallUnary(const CallOptions& options, Method method) {
  Response response;
  const absl::Status status =
      CallWithRepeat(options, [&](grpc::ClientContext& context) {
        response.Clear();
        return method(&context, &response);
      });
  if (!status.ok()) return status;
  return response;
}

}  // namespace evenstep::rpc

#endif  // EVENSTEP_RPC_CHANNEL_H_
