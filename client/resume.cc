#include "client/resume.h"

#include <variant>

#include "base/status_macros.h"

namespace evenstep::client {
namespace {

enum class Progress { kOpen, kReopen, kDone };

// The state of one Watch call over all its connections.
class WatchFilter {
 public:
  WatchFilter(WatchCursor* cursor, Retry* retry, const WatchHandler& handler)
      : cursor_(cursor), retry_(retry), handler_(handler) {}

  Progress progress() const { return progress_; }

  Follow Deliver(const WatchItem& item) {
    retry_->Progress();
    if (const auto* event = std::get_if<JobEvent>(&item)) {
      return DeliverEvent(item, *event);
    }
    const int64_t step = std::get<StepSummary>(item).step;
    if (step <= cursor_->after_step) return Follow::kContinue;
    cursor_->after_step = step;
    return Hand(item);
  }

  void Reopened() { progress_ = Progress::kOpen; }

 private:
  Follow Hand(const WatchItem& item) {
    if (handler_(item) == Follow::kContinue) return Follow::kContinue;
    progress_ = Progress::kDone;
    return Follow::kStop;
  }

  // A new attempt counts its steps from 0 again. The stream was opened with the
  // old attempt's cursor, so it is opened anew: no step of the new one is lost.
  bool BeginsNewAttempt(const JobEvent& event) {
    const bool newer =
        cursor_->attempt >= 0 && event.attempt > cursor_->attempt;
    cursor_->attempt = event.attempt;
    if (!newer || cursor_->after_step < 0) return false;
    cursor_->after_step = -1;
    return true;
  }

  Follow DeliverEvent(const WatchItem& item, const JobEvent& event) {
    if (event.sequence <= cursor_->after_sequence) return Follow::kContinue;
    cursor_->after_sequence = event.sequence;
    const bool reopen = BeginsNewAttempt(event);
    if (Hand(item) == Follow::kStop) return Follow::kStop;
    if (IsFinal(event.state)) progress_ = Progress::kDone;
    if (progress_ == Progress::kOpen && reopen) progress_ = Progress::kReopen;
    return progress_ == Progress::kOpen ? Follow::kContinue : Follow::kStop;
  }

  WatchCursor* const cursor_;
  Retry* const retry_;
  const WatchHandler& handler_;
  Progress progress_ = Progress::kOpen;
};

// How a stream that ended without an error goes on: OK when the job is over.
absl::Status JudgeEnd(const absl::StatusOr<bool>& has_ended) {
  if (!has_ended.ok()) return has_ended.status();
  if (*has_ended) return absl::OkStatus();
  return absl::UnavailableError("the coordinator ended the stream early");
}

}  // namespace

absl::Status ResumeWatch(const WatchSource& source, WatchCursor* cursor,
                         Retry* retry, const WatchHandler& handler) {
  WatchFilter filter(cursor, retry, handler);
  while (true) {
    absl::Status status = source.open(
        *cursor, [&](const WatchItem& item) { return filter.Deliver(item); });
    if (filter.progress() == Progress::kDone) return absl::OkStatus();
    if (filter.progress() == Progress::kReopen) {
      filter.Reopened();
      continue;
    }
    if (status.ok()) status = JudgeEnd(source.has_ended());
    if (status.ok()) return status;
    EVENSTEP_RETURN_IF_ERROR(retry->WaitBeforeNextTry(status));
  }
}

absl::Status ResumeLogs(const LogSource& source, LogCursor* cursor,
                        LogMode mode, Retry* retry, const LogHandler& handler) {
  bool stopped = false;
  auto deliver = [&](const LogLine& line) {
    retry->Progress();
    if (line.sequence <= cursor->after_sequence) return Follow::kContinue;
    cursor->after_sequence = line.sequence;
    stopped = handler(line) == Follow::kStop;
    return stopped ? Follow::kStop : Follow::kContinue;
  };
  while (true) {
    absl::Status status = source.open(*cursor, deliver);
    if (stopped) return absl::OkStatus();
    if (status.ok() && mode == LogMode::kFollow) {
      status = JudgeEnd(source.has_ended());
    }
    if (status.ok()) return status;
    EVENSTEP_RETURN_IF_ERROR(retry->WaitBeforeNextTry(status));
  }
}

}  // namespace evenstep::client
