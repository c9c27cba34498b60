#ifndef EVENSTEP_RPC_SERVER_STREAM_H_
#define EVENSTEP_RPC_SERVER_STREAM_H_

// The server's end of calls that outlive their handler: bidirectional streams,
// server streams, and unary calls that are answered later. The only classes of
// the server side that derive from gRPC reactors. Handles are shared: gRPC
// holds one until the call is over, a service may keep its own for longer. All
// public functions are thread-safe and never block. Callbacks run on gRPC's
// threads: they must not block, and after on_done none comes.
//
//   grpc::ServerBidiReactor<In, Out>* Connect(grpc::CallbackServerContext* c) {
//     auto stream = rpc::ServerBidiStream<In, Out>::Create(c, registry_);
//     stream->Start({.on_message = [stream](In in) { ... },
//                    .on_done = [](absl::Status why) { ... }});
//     return stream->reactor();
//   }

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/grpcpp.h"
#include "rpc/errors.h"
#include "rpc/stream_registry.h"
#include "rpc/write_queue.h"

namespace evenstep::rpc {

struct StreamOptions {
  // Messages that may wait for a slow peer, the one in flight included.
  size_t max_queued_messages = 1024;
  // The same in bytes; a single message may be larger.
  size_t max_queued_bytes = 64 << 20;
};

template <typename In>
struct StreamCallbacks {
  // One message, in order, one at a time. Not called after Finish.
  std::function<void(In)> on_message = nullptr;
  // All queued messages have been written: room for a producer to go on. May
  // be called on one thread while an earlier call goes on on another.
  std::function<void()> on_drained = nullptr;
  // The call is over: the status it was finished with (OK when the peer closed
  // its side), CANCELLED when the peer went away. Last callback, exactly once.
  std::function<void(absl::Status)> on_done = nullptr;
};

// What the two server streams share: sending, ending, and the life cycle.
template <typename Out>
class ServerStream : public LiveStream {
 public:
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

  void Finish(absl::Status status) override ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (!queue_.closed()) finish_status_ = std::move(status);
      queue_.Close();
    }
    Pump();
  }

  void Abort(absl::Status status) override ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (!queue_.closed()) finish_status_ = std::move(status);
      queue_.Drop();
    }
    Pump();
    // A write or an end that waits for the peer's window fails at once.
    absl::MutexLock lock(&context_mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }

  // Messages that wait, the one in flight included.
  size_t num_queued() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return queue_.size();
  }

 protected:
  using Step = typename WriteQueue<Out>::Step;

  ServerStream(grpc::CallbackServerContext* context, StreamRegistry& registry,
               const StreamOptions& options)
      : registry_(registry),
        peer_(context->peer()),
        queue_(options.max_queued_messages, options.max_queued_bytes),
        context_(context) {}

  virtual void StartWriting(const Out* message) = 0;
  virtual void StartFinishing(grpc::Status status) = 0;
  virtual void Drained() = 0;

  // Takes part in shutdown from here on. False: refused, the call is ending.
  bool Register(std::shared_ptr<LiveStream> self) {
    self_ = self;
    absl::Status added = registry_.Add(std::move(self), peer_);
    if (added.ok()) return true;
    Finish(std::move(added));
    return false;
  }

  void Pump() ABSL_LOCKS_EXCLUDED(mutex_) {
    const Out* message = nullptr;
    grpc::Status status;
    Step step;
    {
      absl::MutexLock lock(&mutex_);
      step = queue_.Next();
      if (step == Step::kWrite) message = &queue_.in_flight();
      if (step == Step::kFinish) status = ToGrpc(finish_status_);
    }
    if (step == Step::kWrite) StartWriting(message);
    if (step == Step::kFinish) StartFinishing(std::move(status));
  }

  void WriteDone(bool ok) ABSL_LOCKS_EXCLUDED(mutex_) {
    bool drained;
    {
      absl::MutexLock lock(&mutex_);
      if (!ok) cancelled_ = true;
      queue_.StepDone(ok);
      drained = ok && queue_.empty() && !queue_.closed();
    }
    if (drained) Drained();
    Pump();
  }

  void Cancelled() ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      queue_.Drop();
    }
    Pump();
  }

  bool closed() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return queue_.closed();
  }

  // First part of OnDone: gives the status for on_done.
  absl::Status Ended() ABSL_LOCKS_EXCLUDED(mutex_, context_mutex_) {
    {
      absl::MutexLock lock(&context_mutex_);
      context_ = nullptr;
    }
    absl::MutexLock lock(&mutex_);
    if (cancelled_ && finish_status_.ok()) {
      return absl::CancelledError("the peer went away");
    }
    return finish_status_;
  }

  // Last part of OnDone: may destroy the stream.
  void Release() {
    std::shared_ptr<LiveStream> self = std::move(self_);
    registry_.Remove(this);
  }

 private:
  StreamRegistry& registry_;
  const std::string peer_;
  std::shared_ptr<LiveStream> self_;  // gRPC's hold, until OnDone
  mutable absl::Mutex mutex_;
  WriteQueue<Out> queue_ ABSL_GUARDED_BY(mutex_);
  absl::Status finish_status_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  // Apart from mutex_, which reactions take: only Abort and the end use it.
  absl::Mutex context_mutex_;
  grpc::CallbackServerContext* context_ ABSL_GUARDED_BY(context_mutex_);
};

template <typename In, typename Out>
class ServerBidiStream final
    : public ServerStream<Out>,
      public std::enable_shared_from_this<ServerBidiStream<In, Out>>,
      private grpc::ServerBidiReactor<In, Out> {
 public:
  static std::shared_ptr<ServerBidiStream> Create(
      grpc::CallbackServerContext* context, StreamRegistry& registry,
      const StreamOptions& options = {}) {
    return std::shared_ptr<ServerBidiStream>(
        new ServerBidiStream(context, registry, options));
  }

  // Once, before the handler returns. A refused stream (shutdown, too many) is
  // finished at once and still calls on_done.
  void Start(StreamCallbacks<In> callbacks) {
    callbacks_ = std::move(callbacks);
    this->Register(this->shared_from_this());
    this->StartRead(&incoming_);
  }

  using ServerStream<Out>::Finish;
  grpc::ServerBidiReactor<In, Out>* reactor() { return this; }

 private:
  using ServerStream<Out>::ServerStream;

  void StartWriting(const Out* message) override { this->StartWrite(message); }
  void StartFinishing(grpc::Status status) override {
    grpc::ServerBidiReactor<In, Out>::Finish(std::move(status));
  }
  void Drained() override {
    if (callbacks_.on_drained) callbacks_.on_drained();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return ServerStream<Out>::Finish(absl::OkStatus());
    if (!this->closed() && callbacks_.on_message) {
      callbacks_.on_message(std::move(incoming_));
    }
    incoming_.Clear();
    this->StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override { this->WriteDone(ok); }
  void OnCancel() override { this->Cancelled(); }
  void OnDone() override {
    StreamCallbacks<In> callbacks = std::move(callbacks_);
    callbacks_ = {};
    absl::Status status = this->Ended();
    if (callbacks.on_done) callbacks.on_done(std::move(status));
    this->Release();
  }

  StreamCallbacks<In> callbacks_;
  In incoming_;
};

template <typename Out>
class ServerWriteStream final
    : public ServerStream<Out>,
      public std::enable_shared_from_this<ServerWriteStream<Out>>,
      private grpc::ServerWriteReactor<Out> {
 public:
  struct Callbacks {
    std::function<void()> on_drained = nullptr;  // as in StreamCallbacks
    std::function<void(absl::Status)> on_done =
        nullptr;  // as in StreamCallbacks
  };

  static std::shared_ptr<ServerWriteStream> Create(
      grpc::CallbackServerContext* context, StreamRegistry& registry,
      const StreamOptions& options = {}) {
    return std::shared_ptr<ServerWriteStream>(
        new ServerWriteStream(context, registry, options));
  }

  // As ServerBidiStream::Start.
  void Start(Callbacks callbacks) {
    callbacks_ = std::move(callbacks);
    this->Register(this->shared_from_this());
  }

  using ServerStream<Out>::Finish;
  grpc::ServerWriteReactor<Out>* reactor() { return this; }

 private:
  using ServerStream<Out>::ServerStream;

  void StartWriting(const Out* message) override { this->StartWrite(message); }
  void StartFinishing(grpc::Status status) override {
    grpc::ServerWriteReactor<Out>::Finish(std::move(status));
  }
  void Drained() override {
    if (callbacks_.on_drained) callbacks_.on_drained();
  }

  void OnWriteDone(bool ok) override { this->WriteDone(ok); }
  void OnCancel() override { this->Cancelled(); }
  void OnDone() override {
    Callbacks callbacks = std::move(callbacks_);
    callbacks_ = {};
    absl::Status status = this->Ended();
    if (callbacks.on_done) callbacks.on_done(std::move(status));
    this->Release();
  }

  Callbacks callbacks_;
};

// A unary call that is answered later, such as a wait for a rendezvous value.
// The response message belongs to gRPC: fill it in before Finish, and never
// after Finish or on_cancel. Use `Answer` to get both in one step.
class ServerUnaryCall final
    : public LiveStream,
      public std::enable_shared_from_this<ServerUnaryCall>,
      private grpc::ServerUnaryReactor {
 public:
  static std::shared_ptr<ServerUnaryCall> Create(
      grpc::CallbackServerContext* context, StreamRegistry& registry);

  // Once, before the handler returns. on_cancel: the caller gave up; the call
  // still has to be finished.
  void Start(std::function<void()> on_cancel = nullptr);

  // Runs `fill` and finishes with OK, unless the call is finished already.
  void Answer(const std::function<void()>& fill) ABSL_LOCKS_EXCLUDED(mutex_);
  // The first Finish, Abort or Answer counts.
  void Finish(absl::Status status) override ABSL_LOCKS_EXCLUDED(mutex_);
  void Abort(absl::Status status) override { Finish(std::move(status)); }

  grpc::ServerUnaryReactor* reactor() { return this; }

 private:
  ServerUnaryCall(grpc::CallbackServerContext* context,
                  StreamRegistry& registry)
      : registry_(registry), peer_(context->peer()) {}

  void OnCancel() override;
  void OnDone() override;

  StreamRegistry& registry_;
  const std::string peer_;
  std::shared_ptr<LiveStream> self_;  // gRPC's hold, until OnDone
  std::function<void()> on_cancel_;
  absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace evenstep::rpc

#endif  // EVENSTEP_RPC_SERVER_STREAM_H_
