#include "rpc/server.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "rpc/callback_threads.h"
#include "rpc/errors.h"
#include "rpc/transport.h"

namespace evenstep::rpc {
namespace {

struct HostPort {
  std::string host;
  int port;
};

absl::StatusOr<HostPort> SplitAddress(absl::string_view address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("listen address '", address,
                     "' is not HOST:PORT with a port of 0 to "
                     "65535, for example 127.0.0.1:7070"));
  }
  return HostPort{std::string(address.substr(0, colon)), port};
}

bool IsLoopback(absl::string_view host) {
  if (host == "localhost" || host == "[::1]") return true;
  // 127.0.0.0/8 as four numbers; a name such as 127.example.org is not.
  return absl::StartsWith(host, "127.") &&
         host.find_first_not_of("0123456789.") == absl::string_view::npos;
}

void SetTransportLimits(grpc::ServerBuilder& builder) {
  const auto ms = [](absl::Duration d) {
    return static_cast<int>(absl::ToInt64Milliseconds(d));
  };
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                             ms(kKeepaliveInterval));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             ms(kKeepaliveTimeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      ms(kMinPingInterval));
  // Two servers must never share a port by accident.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

// Before the first server of the process.
void EnablePlugins() {
  static const bool done = [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  (void)done;
}

}  // namespace

absl::Status CheckListenAddress(absl::string_view address, bool allow_remote) {
  EVENSTEP_ASSIGN_OR_RETURN(const HostPort parts, SplitAddress(address));
  if (allow_remote || IsLoopback(parts.host)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "listen address '", address,
      "' is not loopback, and connections are neither encrypted nor checked; "
      "use 127.0.0.1, or accept that with --insecure-allow-remote"));
}

Server::Server(StreamRegistry& streams, std::vector<std::string> names)
    : streams_(streams), names_(std::move(names)) {}

Server::~Server() { Shutdown(absl::ZeroDuration()); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const ServerOptions& options, StreamRegistry& streams,
    const std::vector<HostedService>& services) {
  EVENSTEP_RETURN_IF_ERROR(CheckListenAddress(options.listen_address,
                                              options.insecure_allow_remote));
  EVENSTEP_ASSIGN_OR_RETURN(const HostPort parts,
                            SplitAddress(options.listen_address));
  KeepCallbackThreads();
  EnablePlugins();
  std::vector<std::string> names;
  grpc::ServerBuilder builder;
  SetTransportLimits(builder);
  for (const HostedService& hosted : services) {
    builder.RegisterService(hosted.service);
    names.push_back(hosted.name);
  }
  std::unique_ptr<Server> server(new Server(streams, std::move(names)));
  builder.AddListeningPort(options.listen_address,
                           grpc::InsecureServerCredentials(), &server->port_);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || server->port_ == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options.listen_address,
                     "; is the port taken by another process?"));
  }
  server->address_ = absl::StrCat(parts.host, ":", server->port_);
  server->SetServing(true);
  return server;
}

void Server::SetServing(bool serving) {
  auto* health = server_->GetHealthCheckService();
  if (health == nullptr) return;
  health->SetServingStatus("", serving);
  for (const std::string& name : names_) {
    health->SetServingStatus(name, serving);
  }
}

void Server::Shutdown(absl::Duration grace) {
  if (shut_down_ || server_ == nullptr) return;
  shut_down_ = true;
  SetServing(false);
  const absl::Time deadline = absl::Now() + grace;
  const absl::Status why = WithReason(
      absl::UnavailableError("the server is shutting down"), kShuttingDown);
  if (!streams_.FinishAll(why, grace)) {
    Log(LogLevel::kError, "streams_left_open", {{"count", streams_.size()}});
  }
  server_->Shutdown(absl::ToChronoTime(deadline));
}

}  // namespace evenstep::rpc
