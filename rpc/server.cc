#include "rpc/server.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/listen_address.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "rpc/callback_threads.h"
#include "rpc/channel.h"
#include "rpc/errors.h"
#include "rpc/transport.h"

namespace evenstep::rpc {
namespace {

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

Server::Server(StreamRegistry& streams, std::vector<std::string> names)
    : streams_(streams), names_(std::move(names)) {}

Server::~Server() { Shutdown(absl::ZeroDuration()); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const ServerOptions& options, StreamRegistry& streams,
    const std::vector<HostedService>& services) {
  EVENSTEP_RETURN_IF_ERROR(
      CheckListenAddress("--listen", options.listen_address,
                         AllowRemote(options.insecure_allow_remote)));
  EVENSTEP_ASSIGN_OR_RETURN(const HostPort parts,
                            ParseHostPort("--listen", options.listen_address));
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
  const gpr_timespec deadline = SteadyDeadline(grace);
  const absl::Status why = WithReason(
      absl::UnavailableError("the server is shutting down"), kShuttingDown);
  if (!streams_.FinishAll(why, grace)) {
    Log(LogLevel::kError, "streams_left_open", {{"count", streams_.size()}});
  }
  server_->Shutdown(deadline);
}

}  // namespace evenstep::rpc
