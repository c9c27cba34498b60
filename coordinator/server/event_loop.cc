#include "coordinator/server/event_loop.h"

#include <pthread.h>

#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace evenstep::coordinator {

EventLoop::EventLoop(absl::Duration interval, std::function<void()> tick)
    : interval_(interval),
      tick_(std::move(tick)),
      thread_([this] { Serve(); }) {
  pthread_setname_np(thread_.native_handle(), "coordinator");
}

EventLoop::~EventLoop() { Stop(); }

bool EventLoop::Post(std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return false;
  queue_.push_back(std::move(work));
  return true;
}

void EventLoop::Call(const std::function<void()>& work) {
  absl::Notification done;
  const bool posted = Post([&] {
    work();
    done.Notify();
  });
  if (posted) done.WaitForNotification();
}

void EventLoop::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

std::deque<std::function<void()>> EventLoop::Await(absl::Duration timeout,
                                                   bool* stop) {
  absl::MutexLock lock(&mutex_);
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !queue_.empty();
  };
  mutex_.AwaitWithTimeout(absl::Condition(&ready), timeout);
  *stop = stopping_;
  return std::exchange(queue_, {});
}

void EventLoop::Serve() {
  absl::Time next_tick = absl::Now() + interval_;
  for (bool stop = false; !stop;) {
    for (auto& work : Await(next_tick - absl::Now(), &stop)) {
      work();
      work = nullptr;  // what it holds goes now
    }
    if (absl::Now() < next_tick) continue;
    tick_();
    next_tick = absl::Now() + interval_;
  }
}

}  // namespace evenstep::coordinator
