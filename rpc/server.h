#ifndef EVENSTEP_RPC_SERVER_H_
#define EVENSTEP_RPC_SERVER_H_

// A gRPC server with what every binary of ours needs: the agreed transport
// limits, health, reflection, the loopback rule, and a shutdown that ends
// within its grace. Thread-safe. Services and the registry belong to the caller
// and outlive the server.
//
//   rpc::StreamRegistry streams;
//   JobServiceImpl jobs(streams, ...);
//   auto server = rpc::Server::Start(
//       {.listen_address = "127.0.0.1:0"}, streams,
//       {{v1::JobService::service_full_name(), &jobs}});
//   ...
//   (*server)->Shutdown(grace);

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "rpc/stream_registry.h"

namespace evenstep::rpc {

struct ServerOptions {
  std::string listen_address = "127.0.0.1:0";  // port 0: any free one
  // Without it only loopback addresses are accepted, as there is no TLS.
  bool insecure_allow_remote = false;
};

struct HostedService {
  std::string name;  // full name, for the health service
  grpc::Service* service;
};

class Server {
 public:
  // UNAVAILABLE: the port cannot be had. As CheckListenAddress
  // (base/listen_address.h): the address.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const ServerOptions& options, StreamRegistry& streams,
      const std::vector<HostedService>& services);
  ~Server();  // Shutdown without grace
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const { return port_; }
  // "HOST:PORT" with the port in use.
  const std::string& address() const { return address_; }

  // Answer of the health service for all services.
  void SetServing(bool serving);
  // NOT_SERVING, live calls finished, then closed; all within about `grace`
  // plus a second. Further calls do nothing.
  void Shutdown(absl::Duration grace);

 private:
  Server(StreamRegistry& streams, std::vector<std::string> names);

  StreamRegistry& streams_;
  const std::vector<std::string> names_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  std::string address_;
  bool shut_down_ = false;
};

}  // namespace evenstep::rpc

#endif  // EVENSTEP_RPC_SERVER_H_
