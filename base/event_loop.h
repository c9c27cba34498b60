#ifndef EVENSTEP_BASE_EVENT_LOOP_H_
#define EVENSTEP_BASE_EVENT_LOOP_H_

// One thread that runs posted functions in order, and later ones when their
// time has come. The coordinator and the agent keep their state on such a
// thread: gRPC reactions, planner threads and trainers' threads only post to
// it, so nothing there needs a lock and nothing else blocks. Post, PostAfter
// and Call are thread-safe; functions must not block for long.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace evenstep {

class EventLoop {
 public:
  // `name` is the thread's, at most 15 characters.
  explicit EventLoop(const char* name);
  ~EventLoop();  // Stop
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // False, and the function is thrown away, once Stop has begun.
  bool Post(std::function<void()> function) ABSL_LOCKS_EXCLUDED(mutex_);
  bool PostAfter(absl::Duration delay, std::function<void()> function)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs `function` on the loop and waits for it; false once Stop has begun.
  // Never from the loop itself.
  bool Call(const std::function<void()>& function);

  // Runs what was posted so far, throws waiting timers away, joins the thread.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Ordered by time, then by age.
  using TimerKey = std::pair<absl::Time, int64_t>;

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  bool WaitForNext(std::function<void()>* next) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  absl::CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> ready_ ABSL_GUARDED_BY(mutex_);
  std::map<TimerKey, std::function<void()>> timers_ ABSL_GUARDED_BY(mutex_);
  int64_t next_timer_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace evenstep

#endif  // EVENSTEP_BASE_EVENT_LOOP_H_
