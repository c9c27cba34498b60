#ifndef EVENSTEP_COORDINATOR_STEPS_PLANNER_POOL_H_
#define EVENSTEP_COORDINATOR_STEPS_PLANNER_POOL_H_

// Threads on which steps are planned, off the event loop and off gRPC's
// threads. Work is taken in the order it came; every job has at most one piece
// in the queue, so jobs are served in turn and the queue is bounded by their
// number. Thread-safe. The destructor drops what has not begun and joins.

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace evenstep::coordinator {

// Runs work, somewhere, once. Tests run it at once or later.
class WorkRunner {
 public:
  virtual ~WorkRunner() = default;
  virtual void Run(std::function<void()> work) = 0;
};

class PlannerPool : public WorkRunner {
 public:
  explicit PlannerPool(int num_threads);
  ~PlannerPool() override;
  void Run(std::function<void()> work) override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Serve() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace evenstep::coordinator

#endif  // EVENSTEP_COORDINATOR_STEPS_PLANNER_POOL_H_
