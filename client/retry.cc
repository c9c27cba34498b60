#include "client/retry.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace evenstep::client {
namespace {

constexpr BackoffOptions kBackoff = {.first = absl::Milliseconds(100),
                                     .cap = absl::Seconds(1)};

}  // namespace

void SleepUnlessStopped(absl::Duration wait, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock<std::mutex> lock(mutex);
  stopped.wait_for(lock, stop, absl::ToChronoNanoseconds(wait),
                   [] { return false; });
}

Retry::Retry(const RetryOptions& options, const Clock& clock,
             std::function<void(absl::Duration)> sleep)
    : options_(options),
      clock_(clock),
      sleep_(std::move(sleep)),
      backoff_(kBackoff, RandomUniform()),
      budget_(options.first_budget) {}

Retry::Retry(const RetryOptions& options)
    : Retry(options, RealClock(), [stop = options.stop](absl::Duration wait) {
        SleepUnlessStopped(wait, stop);
      }) {}

void Retry::Progress() {
  budget_ = options_.reconnect_budget;
  failing_since_ = absl::InfiniteDuration();
  backoff_.Reset();
}

absl::Status Retry::WaitBeforeNextTry(const absl::Status& failure) {
  if (options_.stop.stop_requested()) return absl::CancelledError("stopped");
  if (!absl::IsUnavailable(failure)) return failure;
  failing_since_ = std::min(failing_since_, clock_.Monotonic());
  const absl::Duration left = budget_ - (clock_.Monotonic() - failing_since_);
  if (left <= absl::ZeroDuration()) return failure;
  // The last try is made at the very end of the budget.
  const absl::Duration wait = std::min(backoff_.Next(), left);
  if (clock_.Wall() + wait > options_.deadline) {
    return absl::DeadlineExceededError(failure.message());
  }
  if (options_.on_retry) options_.on_retry(failure);
  sleep_(wait);
  if (options_.stop.stop_requested()) return absl::CancelledError("stopped");
  return absl::OkStatus();
}

}  // namespace evenstep::client
