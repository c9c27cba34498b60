#ifndef EVENSTEP_RPC_TESTING_CLIENT_READ_STREAM_H_
#define EVENSTEP_RPC_TESTING_CLIENT_READ_STREAM_H_

// A client that reads a server stream by callbacks, as slowly as a test wants.

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/clock.h"
#include "grpcpp/grpcpp.h"
#include "rpc/errors.h"

namespace evenstep::rpc {

// The reading end of a server stream.
template <typename In>
class ClientReadStream final
    : public std::enable_shared_from_this<ClientReadStream<In>>,
      private grpc::ClientReadReactor<In> {
 public:
  struct Callbacks {
    std::function<void(In)> on_message = nullptr;  // as in StreamCallbacks
    std::function<void(absl::Status)> on_done =
        nullptr;  // as in StreamCallbacks
  };

  static std::shared_ptr<ClientReadStream> Create() {
    return std::shared_ptr<ClientReadStream>(new ClientReadStream);
  }

  // For metadata and a deadline, before Start.
  grpc::ClientContext& context() { return context_; }

  // Once. `method(context, reactor)` names the call on a stub.
  template <typename Method>
  void Start(Callbacks callbacks, Method method) {
    callbacks_ = std::move(callbacks);
    self_ = this->shared_from_this();
    std::shared_ptr<ClientReadStream> keep = self_;
    grpc::ClientReadReactor<In>* reactor = this;
    method(&context_, reactor);
    this->StartRead(&incoming_);
    this->StartCall();
  }

  // Ends the call now; on_done follows with CANCELLED.
  void Cancel() { context_.TryCancel(); }

  // Until on_done has returned; false: not in time. Never in a callback.
  bool WaitUntilDone(absl::Duration timeout) { return done_.WaitFor(timeout); }

 private:
  ClientReadStream() = default;

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (callbacks_.on_message) callbacks_.on_message(std::move(incoming_));
    incoming_.Clear();
    this->StartRead(&incoming_);
  }
  void OnDone(const grpc::Status& status) override {
    std::shared_ptr<ClientReadStream> self = std::move(self_);
    Callbacks callbacks = std::move(callbacks_);
    callbacks_ = {};
    if (callbacks.on_done) callbacks.on_done(FromGrpc(status));
    done_.Notify();
  }

  grpc::ClientContext context_;
  std::shared_ptr<ClientReadStream> self_;  // gRPC's hold, until OnDone
  Callbacks callbacks_;
  In incoming_;
  SteadyNotification done_;
};

}  // namespace evenstep::rpc

#endif  // EVENSTEP_RPC_TESTING_CLIENT_READ_STREAM_H_
