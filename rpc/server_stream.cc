#include "rpc/server_stream.h"

namespace evenstep::rpc {

std::shared_ptr<ServerUnaryCall> ServerUnaryCall::Create(
    grpc::CallbackServerContext* context, StreamRegistry& registry) {
  return std::shared_ptr<ServerUnaryCall>(
      new ServerUnaryCall(context, registry));
}

void ServerUnaryCall::Start(std::function<void()> on_cancel) {
  on_cancel_ = std::move(on_cancel);
  self_ = shared_from_this();
  absl::Status added = registry_.Add(self_, peer_);
  if (!added.ok()) Finish(std::move(added));
}

void ServerUnaryCall::Answer(const std::function<void()>& fill) {
  {
    // `fill` only writes to the response: the lock keeps a second answer off.
    absl::MutexLock lock(&mutex_);
    if (finished_) return;
    finished_ = true;
    fill();
  }
  grpc::ServerUnaryReactor::Finish(grpc::Status::OK);
}

void ServerUnaryCall::Finish(absl::Status status) {
  {
    absl::MutexLock lock(&mutex_);
    if (finished_) return;
    finished_ = true;
  }
  grpc::ServerUnaryReactor::Finish(ToGrpc(status));
}

void ServerUnaryCall::OnCancel() {
  if (on_cancel_) on_cancel_();
  Finish(absl::CancelledError("the caller gave up"));
}

void ServerUnaryCall::OnDone() {
  on_cancel_ = nullptr;
  std::shared_ptr<LiveStream> self = std::move(self_);
  registry_.Remove(this);
}

}  // namespace evenstep::rpc
