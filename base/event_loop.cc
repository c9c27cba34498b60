#include "base/event_loop.h"

#include <pthread.h>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace evenstep {

EventLoop::EventLoop(const char* name) : thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), name);
}

EventLoop::~EventLoop() { Stop(); }

bool EventLoop::Post(std::function<void()> function) {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return false;
  ready_.push_back(std::move(function));
  wake_.Signal();
  return true;
}

bool EventLoop::PostAfter(absl::Duration delay,
                          std::function<void()> function) {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return false;
  timers_.emplace(TimerKey(absl::Now() + delay, next_timer_++),
                  std::move(function));
  wake_.Signal();
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
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    wake_.Signal();
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
  absl::MutexLock lock(&mutex_);
  while (true) {
    if (!stopping_ && !timers_.empty() &&
        timers_.begin()->first.first <= absl::Now()) {
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
    const absl::Time deadline =
        timers_.empty() ? absl::InfiniteFuture() : timers_.begin()->first.first;
    wake_.WaitWithDeadline(&mutex_, deadline);
  }
}

}  // namespace evenstep
