#ifndef EVENSTEP_CLIENT_RETRY_H_
#define EVENSTEP_CLIENT_RETRY_H_

// Whether and when a failed call is made again: only UNAVAILABLE, within a
// budget of time without progress, with capped and jittered back-off. One per
// call or stream; not thread-safe. The caller makes sure that the call is
// idempotent.

#include <functional>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/backoff.h"
#include "base/clock.h"

namespace evenstep::client {

struct RetryOptions {
  absl::Duration first_budget;                   // before anything was received
  absl::Duration reconnect_budget;               // after that
  absl::Time deadline = absl::InfiniteFuture();  // no wait goes beyond this
  std::stop_token stop;
  std::function<void(const absl::Status&)> on_retry;
};

class Retry {
 public:
  // `sleep` waits that long, or less when stop is requested.
  Retry(const RetryOptions& options, const Clock& clock,
        std::function<void(absl::Duration)> sleep);
  explicit Retry(const RetryOptions& options);

  // Something was received: the budget and the back-off start afresh.
  void Progress();
  // After a failure: waits, then OK when the call is to be made again;
  // otherwise the error to return.
  absl::Status WaitBeforeNextTry(const absl::Status& failure);

 private:
  const RetryOptions options_;
  const Clock& clock_;
  const std::function<void(absl::Duration)> sleep_;
  Backoff backoff_;
  absl::Duration budget_;
  absl::Duration failing_since_ = absl::InfiniteDuration();
};

// Waits, but no longer than until `stop` is requested.
void SleepUnlessStopped(absl::Duration wait, const std::stop_token& stop);

}  // namespace evenstep::client

#endif  // EVENSTEP_CLIENT_RETRY_H_
