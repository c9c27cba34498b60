#include "worker/agent/slow_checks.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/log.h"

namespace evenstep::agent {

struct SlowChecks::Answers {
  absl::Mutex mutex;
  EventLoop* loop ABSL_GUARDED_BY(mutex) = nullptr;  // null: none is wanted

  bool Wanted() ABSL_LOCKS_EXCLUDED(mutex) {
    absl::MutexLock lock(&mutex);
    return loop != nullptr;
  }
  void Post(std::function<void()> answer) ABSL_LOCKS_EXCLUDED(mutex) {
    absl::MutexLock lock(&mutex);
    if (loop != nullptr) loop->Post(std::move(answer));
  }
  void Close() ABSL_LOCKS_EXCLUDED(mutex) {
    absl::MutexLock lock(&mutex);
    loop = nullptr;
  }
};

SlowChecks::SlowChecks(EventLoop* loop)
    : loop_(loop),
      answers_(std::make_shared<Answers>()),
      thread_(std::make_unique<EventLoop>("agent-checks")) {
  absl::MutexLock lock(&answers_->mutex);
  answers_->loop = loop;
}

SlowChecks::~SlowChecks() { Stop(absl::ZeroDuration()); }

void SlowChecks::Run(std::function<absl::Status()> check, absl::Duration limit,
                     std::function<void(const absl::Status&)> done) {
  if (thread_ == nullptr) return;
  // On the loop: empty once it was called.
  const auto once = std::make_shared<std::function<void(const absl::Status&)>>(
      std::move(done));
  const auto answer = [once](const absl::Status& status) {
    if (*once) std::exchange(*once, nullptr)(status);
  };
  thread_->Post([answers = answers_, check = std::move(check), answer] {
    if (!answers->Wanted()) return;
    answers->Post([answer, status = check()] { answer(status); });
  });
  loop_->PostAfter(limit, [answer, limit] {
    answer(absl::DeadlineExceededError(
        absl::StrCat("no answer within ", absl::FormatDuration(limit),
                     "; a file system may hang")));
  });
}

void SlowChecks::Stop(absl::Duration patience) {
  if (thread_ == nullptr) return;
  answers_->Close();
  const auto idle = std::make_shared<SteadyNotification>();
  thread_->Post([idle] { idle->Notify(); });
  if (idle->WaitFor(patience)) {
    thread_->Stop();
    thread_ = nullptr;
    return;
  }
  Log(LogLevel::kError, "check_hangs",
      {{"reason", "a check of data has not returned: its thread is left"}});
  (void)thread_.release();
}

}  // namespace evenstep::agent
