#ifndef EVENSTEP_COORDINATOR_SERVER_AGENT_SERVICE_H_
#define EVENSTEP_COORDINATOR_SERVER_AGENT_SERVICE_H_

// AgentService over gRPC: messages of a node's stream are posted to the event
// loop in order; waits of the rendezvous are answered from there and hold no
// thread. No state of its own. gRPC calls the methods from its threads.

#include "coordinator/server/job_service.h"
#include "evenstep/v1/agent.grpc.pb.h"

namespace evenstep::coordinator {

class AgentServiceImpl final : public v1::AgentService::CallbackService {
 public:
  explicit AgentServiceImpl(const ServiceParts& parts) : parts_(parts) {}

  grpc::ServerBidiReactor<v1::AgentMessage, v1::CoordinatorMessage>* Connect(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Rendezvous(
      grpc::CallbackServerContext* context,
      const v1::RendezvousRequest* request,
      v1::RendezvousResponse* response) override;

 private:
  const ServiceParts parts_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_AGENT_SERVICE_H_
