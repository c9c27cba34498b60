#ifndef EVENSTEP_RPC_CLIENT_STREAM_H_
#define EVENSTEP_RPC_CLIENT_STREAM_H_

// The client's end of a bidirectional stream: the only class of the client side
// that derives from a gRPC reactor. Handles are shared; gRPC holds
// one until the call is over. Thread-safe; only WaitUntilDone blocks. Callbacks
// run on gRPC's threads: they must not block, and after on_done none comes.
//
//   auto stream = rpc::ClientBidiStream<In, Out>::Create();
//   stream->Start({.on_message = ..., .on_done = ...},
//                 [&](grpc::ClientContext* context, auto* reactor) {
//                   stub->async()->Connect(context, reactor);
//                 });

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "grpcpp/grpcpp.h"
#include "rpc/errors.h"
#include "rpc/server_stream.h"
#include "rpc/write_queue.h"

namespace evenstep::rpc {

template <typename In, typename Out>
class ClientBidiStream final
    : public std::enable_shared_from_this<ClientBidiStream<In, Out>>,
      private grpc::ClientBidiReactor<Out, In> {
 public:
  static std::shared_ptr<ClientBidiStream> Create(
      const StreamOptions& options = {}) {
    return std::shared_ptr<ClientBidiStream>(new ClientBidiStream(options));
  }

  // For metadata and a deadline, before Start.
  grpc::ClientContext& context() { return context_; }

  // Once. `method(context, reactor)` names the call on a stub.
  template <typename Method>
  void Start(StreamCallbacks<In> callbacks, Method method)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    callbacks_ = std::move(callbacks);
    self_ = this->shared_from_this();
    std::shared_ptr<ClientBidiStream> keep = self_;
    grpc::ClientBidiReactor<Out, In>* reactor = this;
    method(&context_, reactor);
    this->AddHold();  // writes begin outside reactions
    this->StartRead(&incoming_);
    this->StartCall();
    {
      absl::MutexLock lock(&mutex_);
      started_ = true;
    }
    Pump();
  }

  // Queues a message. RESOURCE_EXHAUSTED: the queue is full. CANCELLED: the
  // stream is ending or over.
  absl::Status Send(Out message) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      absl::Status pushed = queue_.Push(std::move(message));
      if (!pushed.ok()) return pushed;
    }
    Pump();
    return absl::OkStatus();
  }

  // Closes this side once queued messages are written; messages still come in.
  void FinishWrites() ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      queue_.Close();
    }
    Pump();
  }

  // Ends the call now; on_done follows with CANCELLED.
  void Cancel() { context_.TryCancel(); }

  // Until on_done has returned; false: not in time. Never in a callback.
  bool WaitUntilDone(absl::Duration timeout) { return done_.WaitFor(timeout); }

 private:
  using Step = typename WriteQueue<Out>::Step;

  explicit ClientBidiStream(const StreamOptions& options)
      : queue_(options.max_queued_messages, options.max_queued_bytes) {}

  void Pump() ABSL_LOCKS_EXCLUDED(mutex_) {
    const Out* message = nullptr;
    Step step = Step::kNothing;
    bool release_hold = false;
    {
      absl::MutexLock lock(&mutex_);
      if (!started_) return;
      if (!reads_ended_) step = queue_.Next();
      if (step == Step::kWrite) message = &queue_.in_flight();
      release_hold = reads_ended_ && !queue_.busy() && !hold_released_;
      if (release_hold) hold_released_ = true;
    }
    if (step == Step::kWrite) this->StartWrite(message);
    if (step == Step::kFinish) this->StartWritesDone();
    if (release_hold) this->RemoveHold();
  }

  void WriteStepDone(bool ok) ABSL_LOCKS_EXCLUDED(mutex_) {
    bool drained;
    {
      absl::MutexLock lock(&mutex_);
      queue_.StepDone(ok);
      drained = ok && queue_.empty() && !queue_.closed();
    }
    if (drained && callbacks_.on_drained) callbacks_.on_drained();
    Pump();
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      if (callbacks_.on_message) callbacks_.on_message(std::move(incoming_));
      incoming_.Clear();
      return this->StartRead(&incoming_);
    }
    {
      absl::MutexLock lock(&mutex_);
      reads_ended_ = true;
      queue_.Drop();
    }
    Pump();
  }
  void OnWriteDone(bool ok) override { WriteStepDone(ok); }
  void OnWritesDoneDone(bool ok) override { WriteStepDone(ok); }
  void OnDone(const grpc::Status& status) override {
    std::shared_ptr<ClientBidiStream> self = std::move(self_);
    StreamCallbacks<In> callbacks = std::move(callbacks_);
    callbacks_ = {};
    if (callbacks.on_done) callbacks.on_done(FromGrpc(status));
    done_.Notify();
  }

  grpc::ClientContext context_;
  std::shared_ptr<ClientBidiStream> self_;  // gRPC's hold, until OnDone
  StreamCallbacks<In> callbacks_;
  In incoming_;
  SteadyNotification done_;
  absl::Mutex mutex_;
  WriteQueue<Out> queue_ ABSL_GUARDED_BY(mutex_);
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool reads_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool hold_released_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace evenstep::rpc

#endif  // EVENSTEP_RPC_CLIENT_STREAM_H_
