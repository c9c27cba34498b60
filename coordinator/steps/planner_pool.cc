#include "coordinator/steps/planner_pool.h"

#include <pthread.h>

#include <utility>

namespace evenstep::coordinator {

PlannerPool::PlannerPool(int num_threads) {
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this] { Serve(); });
    pthread_setname_np(threads_.back().native_handle(), "planner");
  }
}

PlannerPool::~PlannerPool() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    queue_.clear();
  }
  for (std::thread& thread : threads_) thread.join();
}

void PlannerPool::Run(std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  if (!stopping_) queue_.push_back(std::move(work));
}

void PlannerPool::Serve() {
  while (true) {
    std::function<void()> work;
    {
      absl::MutexLock lock(&mutex_);
      const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !queue_.empty();
      };
      mutex_.Await(absl::Condition(&ready));
      if (stopping_) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace evenstep::coordinator
