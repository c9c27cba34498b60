#ifndef EVENSTEP_WORKER_AGENT_EVENT_LOOP_H_
#define EVENSTEP_WORKER_AGENT_EVENT_LOOP_H_

// One thread that runs posted functions in order, and later ones when their
// time has come. The agent's state belongs to this thread: gRPC callbacks and
// the trainers' threads only post to it, so nothing there needs a lock. Post
// and PostAfter are thread-safe; functions must not block for long.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace evenstep::agent {

class EventLoop {
 public:
  EventLoop();
  ~EventLoop();  // Stop
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Functions posted after Stop are thrown away.
  void Post(std::function<void()> function) ABSL_LOCKS_EXCLUDED(mutex_);
  void PostAfter(absl::Duration delay, std::function<void()> function)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs `function` on the loop and waits for it. Never from the loop itself.
  void RunAndWait(std::function<void()> function);

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

}  // namespace evenstep::agent

#endif  // EVENSTEP_WORKER_AGENT_EVENT_LOOP_H_
