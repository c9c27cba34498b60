#include "rpc/channel.h"

#include <algorithm>

#include "rpc/callback_threads.h"
#include "rpc/transport.h"

namespace evenstep::rpc {
namespace {

// Longer makes no difference, and this does not overflow.
constexpr absl::Duration kLongestDeadline = absl::Hours(24 * 365);

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

gpr_timespec SteadyDeadline(absl::Duration from_now) {
  const int64_t ms = absl::ToInt64Milliseconds(
      std::clamp(from_now, absl::ZeroDuration(), kLongestDeadline));
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(ms, GPR_TIMESPAN));
}

void SetDeadline(grpc::ClientContext& context, absl::Duration deadline) {
  context.set_deadline(SteadyDeadline(deadline));
}

}  // namespace evenstep::rpc
