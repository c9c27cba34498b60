#include "worker/trainer/job/index_reporter.h"

#include <utility>

#include "base/log.h"

namespace evenstep::trainer {
namespace {

int64_t Percent(const data::IndexProgress& progress) {
  if (progress.bytes_total == 0) return 0;
  return static_cast<int64_t>(100.0 * static_cast<double>(progress.bytes_done) /
                              static_cast<double>(progress.bytes_total));
}

void LogProgress(const data::IndexProgress& progress) {
  Log(LogLevel::kInfo,
      progress.waiting ? "waits_for_another_process_that_indexes" : "indexing",
      {{"percent", Percent(progress)},
       {"bytes_done", progress.bytes_done},
       {"bytes_total", progress.bytes_total}});
}

}  // namespace

IndexReporter::IndexReporter(AgentChannel* agent, const Clock* clock)
    : agent_(agent),
      clock_(clock),
      next_message_(clock->Monotonic() + kMessageInterval),
      next_log_(next_message_) {}

absl::Status IndexReporter::Report(const data::IndexProgress& progress) {
  if (agent_->StopRequested()) {
    return absl::CancelledError("stopped while the data was indexed");
  }
  const absl::Duration now = clock_->Monotonic();
  if (now >= next_log_) {
    next_log_ = now + kLogInterval;
    LogProgress(progress);
  }
  if (now < next_message_ || !MovesOn(progress)) return absl::OkStatus();
  next_message_ = now + kMessageInterval;
  v1::ToAgent message;
  message.mutable_data()->set_indexed_bytes(progress.bytes_done);
  message.mutable_data()->set_bytes_to_index(progress.bytes_total);
  return agent_->Send(message);
}

// Without a total the message would say that the data is indexed.
bool IndexReporter::MovesOn(const data::IndexProgress& progress) {
  if (!progress.waiting) return true;
  return progress.bytes_total > 0 &&
         std::exchange(told_reports_, progress.num_reports) !=
             progress.num_reports;
}

}  // namespace evenstep::trainer
