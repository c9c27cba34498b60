#include "coordinator/server/job_service.h"

#include <memory>
#include <string>
#include <utility>

#include "base/version.h"
#include "coordinator/server/job_errors.h"
#include "coordinator/server/request_check.h"
#include "rpc/server_stream.h"
#include "rpc/transport.h"

namespace evenstep::coordinator {
namespace {

// Beyond this a follower waits for its reader.
constexpr size_t kMaxQueuedResponses = 128;

template <typename Message>
class StreamSink : public FollowSink<Message> {
 public:
  using Stream = rpc::ServerWriteStream<Message>;
  explicit StreamSink(std::shared_ptr<Stream> stream)
      : stream_(std::move(stream)) {}

  bool HasRoom() const override {
    return stream_->num_queued() < kMaxQueuedResponses;
  }
  void Send(Message message) override {
    // A stream that has ended is removed by its on_done.
    (void)stream_->Send(std::move(message));
  }
  void Finish(const absl::Status& status) override { stream_->Finish(status); }

 private:
  const std::shared_ptr<Stream> stream_;
};

// Ties a stream to its follower. Used on the loop's thread only: a stream may
// end before the follower is known.
struct Ticket {
  int64_t follower = 0;
  bool over = false;
};

}  // namespace

template <typename Request, typename Response>
grpc::ServerUnaryReactor* JobServiceImpl::Unary(
    const char* name, grpc::CallbackServerContext* context,
    Method<Request, Response> method, const Request* request,
    Response* response) {
  auto call = rpc::ServerUnaryCall::Create(context, parts_.streams);
  call->Start();
  const absl::Status legal = CheckRequest(*request);
  if (!legal.ok()) {
    parts_.metrics.CountRpc(name, legal.code());
    call->Finish(legal);
    return call->reactor();
  }
  const bool posted = parts_.loop.Post(
      [this, name, call, method, request = *request, response] {
        absl::StatusOr<Response> result = (parts_.coordinator.*method)(request);
        parts_.metrics.CountRpc(name, result.status().code());
        if (!result.ok()) return call->Finish(result.status());
        call->Answer([&] { *response = *std::move(result); });
      });
  if (!posted) call->Finish(ShuttingDown());
  return call->reactor();
}

template <typename Message, typename Request, typename Begin>
grpc::ServerWriteReactor<Message>* JobServiceImpl::Follow(
    const char* name, grpc::CallbackServerContext* context,
    const Request* request, Begin begin) {
  auto stream =
      rpc::ServerWriteStream<Message>::Create(context, parts_.streams);
  auto ticket = std::make_shared<Ticket>();
  stream->Start({.on_drained =
                     [this, ticket] {
                       parts_.loop.Post([this, ticket] {
                         parts_.coordinator.followers().Pump(ticket->follower);
                       });
                     },
                 .on_done =
                     [this, name, ticket](const absl::Status& status) {
                       parts_.metrics.CountRpc(name, status.code());
                       parts_.loop.Post([this, ticket] {
                         ticket->over = true;
                         parts_.coordinator.followers().Remove(
                             ticket->follower);
                       });
                     }});
  const absl::Status legal = CheckRequest(*request);
  if (!legal.ok()) {
    stream->Finish(legal);
    return stream->reactor();
  }
  const bool posted =
      parts_.loop.Post([this, begin, ticket, request = *request,
                        sink = std::make_shared<StreamSink<Message>>(stream)] {
        if (ticket->over) return;
        ticket->follower =
            (parts_.coordinator.followers().*begin)(request, sink);
      });
  if (!posted) stream->Finish(ShuttingDown());
  return stream->reactor();
}

grpc::ServerUnaryReactor* JobServiceImpl::Submit(
    grpc::CallbackServerContext* context, const v1::SubmitRequest* request,
    v1::SubmitResponse* response) {
  return Unary("Submit", context, &Coordinator::Submit, request, response);
}

grpc::ServerUnaryReactor* JobServiceImpl::Get(
    grpc::CallbackServerContext* context, const v1::GetRequest* request,
    v1::GetResponse* response) {
  return Unary("Get", context, &Coordinator::Get, request, response);
}

grpc::ServerUnaryReactor* JobServiceImpl::List(
    grpc::CallbackServerContext* context, const v1::ListRequest* request,
    v1::ListResponse* response) {
  // Read by `evenstep version --server`.
  context->AddInitialMetadata(rpc::kVersionMetadata, std::string(Version()));
  return Unary("List", context, &Coordinator::List, request, response);
}

grpc::ServerUnaryReactor* JobServiceImpl::Cancel(
    grpc::CallbackServerContext* context, const v1::CancelRequest* request,
    v1::CancelResponse* response) {
  return Unary("Cancel", context, &Coordinator::Cancel, request, response);
}

grpc::ServerWriteReactor<v1::WatchResponse>* JobServiceImpl::Watch(
    grpc::CallbackServerContext* context, const v1::WatchRequest* request) {
  return Follow<v1::WatchResponse>("Watch", context, request,
                                   &Followers::Watch);
}

grpc::ServerWriteReactor<v1::LogsResponse>* JobServiceImpl::Logs(
    grpc::CallbackServerContext* context, const v1::LogsRequest* request) {
  return Follow<v1::LogsResponse>("Logs", context, request,
                                  &Followers::FollowLog);
}

}  // namespace evenstep::coordinator
