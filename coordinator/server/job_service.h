#ifndef EVENSTEP_COORDINATOR_SERVER_JOB_SERVICE_H_
#define EVENSTEP_COORDINATOR_SERVER_JOB_SERVICE_H_

// JobService over gRPC: every call is posted to the event loop and answered
// from there. No state of its own. gRPC calls the methods from its threads.

#include "base/event_loop.h"
#include "coordinator/server/coordinator.h"
#include "coordinator/server/metrics.h"
#include "evenstep/v1/job.grpc.pb.h"
#include "rpc/stream_registry.h"

namespace evenstep::coordinator {

// What both services need; all outlive them.
struct ServiceParts {
  Coordinator& coordinator;
  EventLoop& loop;
  Metrics& metrics;
  rpc::StreamRegistry& streams;
};

class JobServiceImpl final : public v1::JobService::CallbackService {
 public:
  explicit JobServiceImpl(const ServiceParts& parts) : parts_(parts) {}

  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context,
                                   const v1::SubmitRequest* request,
                                   v1::SubmitResponse* response) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const v1::GetRequest* request,
                                v1::GetResponse* response) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListRequest* request,
                                 v1::ListResponse* response) override;
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context,
                                   const v1::CancelRequest* request,
                                   v1::CancelResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchResponse>* Watch(
      grpc::CallbackServerContext* context,
      const v1::WatchRequest* request) override;
  grpc::ServerWriteReactor<v1::LogsResponse>* Logs(
      grpc::CallbackServerContext* context,
      const v1::LogsRequest* request) override;

 private:
  template <typename Request, typename Response>
  using Method =
      absl::StatusOr<Response> (Coordinator::*)(const Request& request);

  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Unary(const char* name,
                                  grpc::CallbackServerContext* context,
                                  Method<Request, Response> method,
                                  const Request* request, Response* response);
  template <typename Message, typename Request, typename Begin>
  grpc::ServerWriteReactor<Message>* Follow(
      const char* name, grpc::CallbackServerContext* context,
      const Request* request, Begin begin);

  const ServiceParts parts_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_JOB_SERVICE_H_
