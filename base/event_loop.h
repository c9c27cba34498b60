#ifndef EVENSTEP_BASE_EVENT_LOOP_H_
#define EVENSTEP_BASE_EVENT_LOOP_H_

// One thread that runs posted functions in order, and later ones when their
// time has come. The coordinator and the agent keep their state on such a
// thread: gRPC reactions, planner threads and trainers' threads only post to
// it, so nothing there needs a lock and nothing else blocks. Post, PostAfter
// and Call are thread-safe; functions must not block for long. Times are
// monotonic: a change of the wall clock moves no timer.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

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
  bool Post(std::function<void()> function);
  bool PostAfter(absl::Duration delay, std::function<void()> function);
  // Runs `function` on the loop and waits for it; false once Stop has begun.
  // Never from the loop itself.
  bool Call(const std::function<void()>& function);

  // Runs what was posted so far, throws waiting timers away, joins the thread.
  void Stop();

 private:
  // Ordered by time, then by age.
  using TimerKey = std::pair<std::chrono::steady_clock::time_point, int64_t>;

  void Run();
  bool WaitForNext(std::function<void()>* next);

  // Not absl::Mutex: its timed waits follow the wall clock here. The mutex
  // guards everything down to the thread.
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::deque<std::function<void()>> ready_;
  std::map<TimerKey, std::function<void()>> timers_;
  int64_t next_timer_ = 0;
  std::thread thread_;
};

}  // namespace evenstep

#endif  // EVENSTEP_BASE_EVENT_LOOP_H_
