#ifndef EVENSTEP_RPC_STREAM_REGISTRY_H_
#define EVENSTEP_RPC_STREAM_REGISTRY_H_

// The live calls of a server, so that a shutdown can end them first:
// grpc::Server::Shutdown waits for ever on a callback RPC that nobody finishes.
// The stream wrappers add and remove themselves. Thread-safe. Outlives the
// server and every stream made with it.

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace evenstep::rpc {

// A call that can be ended from outside. Both calls may come at any time, from
// any thread, more than once; neither blocks.
class LiveStream {
 public:
  virtual ~LiveStream() = default;
  // Ends the call with `status` once queued messages are written.
  virtual void Finish(absl::Status status) = 0;
  // Ends the call now. The peer sees `status`, or CANCELLED.
  virtual void Abort(absl::Status status) = 0;
};

class StreamRegistry {
 public:
  explicit StreamRegistry(size_t max_streams = 4096);

  // UNAVAILABLE: FinishAll has begun. RESOURCE_EXHAUSTED: too many streams.
  absl::Status Add(std::shared_ptr<LiveStream> stream)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Does nothing for a stream that was not added.
  void Remove(LiveStream* stream) ABSL_LOCKS_EXCLUDED(mutex_);
  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Refuses new streams, finishes the live ones, and aborts those that are
  // still there after `grace`. Blocks until all are gone or a second more has
  // passed; false: some are not. Never call it in a reaction.
  bool FinishAll(const absl::Status& status, absl::Duration grace)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::vector<std::shared_ptr<LiveStream>> Snapshot() const
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool AwaitEmpty(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  const size_t max_streams_;
  mutable absl::Mutex mutex_;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  std::unordered_map<LiveStream*, std::shared_ptr<LiveStream>> streams_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace evenstep::rpc

#endif  // EVENSTEP_RPC_STREAM_REGISTRY_H_
