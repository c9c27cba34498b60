#ifndef EVENSTEP_COORDINATOR_SERVER_EVENT_LOOP_H_
#define EVENSTEP_COORDINATOR_SERVER_EVENT_LOOP_H_

// The one thread that owns the coordinator's state: jobs, nodes, attempts and
// the store. Everything else posts to it; nothing waits for it except where
// said. gRPC reactions and planner threads therefore never block, and no lock
// is held over I/O or RPC. Post is thread-safe.

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace evenstep::coordinator {

class EventLoop {
 public:
  // `tick` runs on the thread about every `interval`, between posted work.
  EventLoop(absl::Duration interval, std::function<void()> tick);
  // Stop.
  ~EventLoop();

  // Runs in order of posting. After Stop has begun it is dropped: false.
  bool Post(std::function<void()> work) ABSL_LOCKS_EXCLUDED(mutex_);
  // Posts and waits for it. Never on the loop's own thread.
  void Call(const std::function<void()>& work) ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs what was posted before, then ends the thread.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Serve() ABSL_LOCKS_EXCLUDED(mutex_);
  std::deque<std::function<void()>> Await(absl::Duration timeout, bool* stop)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const absl::Duration interval_;
  const std::function<void()> tick_;
  absl::Mutex mutex_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_SERVER_EVENT_LOOP_H_
