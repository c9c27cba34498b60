#include "base/event_loop.h"

#include <pthread.h>

#include <algorithm>

#include "absl/synchronization/notification.h"

namespace evenstep {
namespace {

using std::chrono::steady_clock;

// A delay beyond this is no different, and does not overflow.
constexpr absl::Duration kLongestDelay = absl::Hours(24 * 365);

steady_clock::time_point DueAfter(absl::Duration delay) {
  return steady_clock::now() +
         absl::ToChronoNanoseconds(std::min(delay, kLongestDelay));
}

}  // namespace

EventLoop::EventLoop(const char* name) : thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), name);
}

EventLoop::~EventLoop() { Stop(); }

bool EventLoop::Post(std::function<void()> function) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return false;
  ready_.push_back(std::move(function));
  wake_.notify_one();
  return true;
}

bool EventLoop::PostAfter(absl::Duration delay,
                          std::function<void()> function) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return false;
  timers_.emplace(TimerKey(DueAfter(delay), next_timer_++),
                  std::move(function));
  wake_.notify_one();
  return true;
}

bool EventLoop::Call(const std::function<void()>& function) {
  absl::Notification done;
  const bool posted = Post([&] {
    function();
    done.Notify();
  });
  if (posted) done.WaitForNotification();
  return posted;
}

void EventLoop::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void EventLoop::Run() {
  std::function<void()> next;
  while (WaitForNext(&next)) {
    next();
    next = nullptr;
  }
}

bool EventLoop::WaitForNext(std::function<void()>* next) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    if (!stopping_ && !timers_.empty() &&
        timers_.begin()->first.first <= steady_clock::now()) {
      *next = std::move(timers_.begin()->second);
      timers_.erase(timers_.begin());
      return true;
    }
    if (!ready_.empty()) {
      *next = std::move(ready_.front());
      ready_.pop_front();
      return true;
    }
    if (stopping_) return false;
    if (timers_.empty()) {
      wake_.wait(lock);
    } else {
      const steady_clock::time_point due = timers_.begin()->first.first;
      wake_.wait_until(lock, due);
    }
  }
}

}  // namespace evenstep
