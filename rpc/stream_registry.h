#ifndef EVENSTEP_RPC_STREAM_REGISTRY_H_
#define EVENSTEP_RPC_STREAM_REGISTRY_H_

// The live calls of a server, so that a shutdown can end them first:
// grpc::Server::Shutdown waits for ever on a callback RPC that nobody finishes.
// The stream wrappers add and remove themselves. Thread-safe. Outlives the
// server and every stream made with it. Bounded: in all, and for each caller,
// so that one of them cannot use up what the others need.

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

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

struct StreamLimits {
  size_t in_all = 16384;
  // The trainers of a node wait for each other with a call each.
  size_t per_caller = 2048;
};

// Who makes a call, by gRPC's name of its peer: the host; on loopback, where
// all callers have one host, the connection.
std::string CallerOf(absl::string_view peer);

class StreamRegistry {
 public:
  explicit StreamRegistry(const StreamLimits& limits = {});

  // UNAVAILABLE: FinishAll has begun. RESOURCE_EXHAUSTED: too many streams, in
  // all or of this peer.
  absl::Status Add(std::shared_ptr<LiveStream> stream, absl::string_view peer)
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

  struct Entry {
    std::shared_ptr<LiveStream> stream;
    std::string caller;
  };

  const StreamLimits limits_;
  mutable absl::Mutex mutex_;
  SteadyCondition emptied_;  // streams_
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  std::unordered_map<LiveStream*, Entry> streams_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, size_t> num_by_caller_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace evenstep::rpc

#endif  // EVENSTEP_RPC_STREAM_REGISTRY_H_
