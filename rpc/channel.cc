#include "rpc/channel.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "base/backoff.h"
#include "rpc/callback_threads.h"
#include "rpc/transport.h"

namespace evenstep::rpc {
namespace {

int Ms(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address) {
  KeepCallbackThreads();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Ms(kKeepaliveInterval));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Ms(kKeepaliveTimeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  // A proxy of the environment has no business between our processes.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

void SetDeadline(grpc::ClientContext& context, absl::Duration deadline) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + deadline));
}

absl::Status CallWithRepeat(
    const CallOptions& options,
    const std::function<grpc::Status(grpc::ClientContext&)>& attempt) {
  const absl::Time end = absl::Now() + options.budget;
  Backoff backoff({}, RandomUniform());
  while (true) {
    grpc::ClientContext context;
    SetDeadline(context, options.deadline);
    absl::Status status = FromGrpc(attempt(context));
    const bool again = options.repeat == Repeat::kWhileUnavailable &&
                       absl::IsUnavailable(status);
    const absl::Duration left = end - absl::Now();
    if (!again || left <= absl::ZeroDuration()) return status;
    absl::SleepFor(std::min(backoff.Next(), left));
  }
}

}  // namespace evenstep::rpc
