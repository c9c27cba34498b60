#include "coordinator/server/agent_service.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/byte_budget.h"
#include "coordinator/server/job_errors.h"
#include "rpc/server_stream.h"

namespace evenstep::coordinator {
namespace {

using Stream = rpc::ServerBidiStream<v1::AgentMessage, v1::CoordinatorMessage>;

// Of one agent's messages that wait for the event loop.
constexpr int64_t kMaxWaitingBytes = 64 << 20;

absl::Status TooFast(int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("messages of the agent wait, and one of ", bytes,
                   " bytes would exceed the bound of ", kMaxWaitingBytes,
                   " bytes; connect again"));
}

class StreamLink : public AgentLink {
 public:
  explicit StreamLink(std::shared_ptr<Stream> stream)
      : stream_(std::move(stream)) {}

  void Send(const v1::CoordinatorMessage& message) override {
    const absl::Status sent = stream_->Send(message);
    // An agent that does not read is cut off; it connects again and says what
    // it holds.
    if (absl::IsResourceExhausted(sent)) stream_->Abort(sent);
  }
  void Close(const absl::Status& status) override { stream_->Finish(status); }
  void Abort(const absl::Status& status) { stream_->Abort(status); }

 private:
  const std::shared_ptr<Stream> stream_;
};

}  // namespace

grpc::ServerBidiReactor<v1::AgentMessage, v1::CoordinatorMessage>*
AgentServiceImpl::Connect(grpc::CallbackServerContext* context) {
  auto stream = Stream::Create(context, parts_.streams);
  auto link = std::make_shared<StreamLink>(stream);
  auto waiting = std::make_shared<ByteBudget>(kMaxWaitingBytes);
  stream->Start({.on_message =
                     [this, link, waiting](v1::AgentMessage message) {
                       const auto bytes =
                           static_cast<int64_t>(message.ByteSizeLong());
                       if (!waiting->TryTake(bytes))
                         return link->Abort(TooFast(bytes));
                       parts_.loop.Post([this, link, waiting, bytes,
                                         message = std::move(message)] {
                         parts_.coordinator.OnAgentMessage(link, message);
                         waiting->Give(bytes);
                       });
                     },
                 .on_drained = nullptr,
                 .on_done =
                     [this, link](const absl::Status& status) {
                       parts_.metrics.CountRpc("Connect", status.code());
                       parts_.loop.Post([this, link] {
                         parts_.coordinator.OnAgentGone(link.get());
                       });
                     }});
  return stream->reactor();
}

grpc::ServerUnaryReactor* AgentServiceImpl::Rendezvous(
    grpc::CallbackServerContext* context, const v1::RendezvousRequest* request,
    v1::RendezvousResponse* response) {
  auto call = rpc::ServerUnaryCall::Create(context, parts_.streams);
  call->Start();
  const auto answer =
      [this, call, response](absl::StatusOr<v1::RendezvousResponse> result) {
        parts_.metrics.CountRpc("Rendezvous", result.status().code());
        if (!result.ok()) return call->Finish(result.status());
        call->Answer([&] { *response = *std::move(result); });
      };
  const bool posted = parts_.loop.Post([this, request = *request, answer] {
    parts_.coordinator.HandleRendezvous(request, answer);
  });
  if (!posted) call->Finish(ShuttingDown());
  return call->reactor();
}

}  // namespace evenstep::coordinator
