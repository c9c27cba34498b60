#include "worker/trainer/comm/watchdog.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace evenstep::trainer {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(50);

}  // namespace

Watchdog::Watchdog(OnHang end_process)
    : end_process_(std::move(end_process)), thread_([this] { Watch(); }) {}

Watchdog::~Watchdog() {
  {
    absl::MutexLock lock(&mutex_);
    over_ = true;
    ended_.NotifyAll();
  }
  thread_.join();
}

void Watchdog::Run(const WatchedCall& call, absl::FunctionRef<void()> body) {
  int64_t number = 0;
  {
    absl::MutexLock lock(&mutex_);
    number = num_calls_++;
    calls_[number] = {call, RealClock().Monotonic() + call.limit};
  }
  body();
  absl::MutexLock lock(&mutex_);
  calls_.erase(number);
}

void Watchdog::Watch() {
  while (true) {
    std::string why;
    {
      absl::MutexLock lock(&mutex_);
      const auto over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return over_;
      };
      if (ended_.WaitFor(mutex_, kPeriod, over)) return;
      why = NameOverdue();
    }
    if (!why.empty()) end_process_(why);
  }
}

std::string Watchdog::NameOverdue() {
  const absl::Duration now = RealClock().Monotonic();
  for (auto& [number, watched] : calls_) {
    if (now < watched.deadline) continue;
    watched.deadline = absl::InfiniteDuration();
    return absl::StrCat(watched.call.what, " of NCCL group ",
                        watched.call.group, " did not return within ",
                        absl::FormatDuration(watched.call.limit),
                        ": ending the process");
  }
  return "";
}

}  // namespace evenstep::trainer
