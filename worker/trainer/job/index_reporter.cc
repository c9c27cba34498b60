#include "worker/trainer/job/index_reporter.h"

#include "base/log.h"

namespace evenstep::trainer {
namespace {

int64_t Percent(const data::IndexProgress& progress) {
  if (progress.bytes_total == 0) return 0;
  return static_cast<int64_t>(100.0 * static_cast<double>(progress.bytes_done) /
                              static_cast<double>(progress.bytes_total));
}

void LogProgress(const data::IndexProgress& progress) {
  if (progress.waiting) {
    Log(LogLevel::kInfo, "waits_for_another_process_that_indexes");
    return;
  }
  Log(LogLevel::kInfo, "indexing",
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
  if (now < next_message_ || progress.waiting) return absl::OkStatus();
  next_message_ = now + kMessageInterval;
  v1::ToAgent message;
  message.mutable_data()->set_indexed_bytes(progress.bytes_done);
  message.mutable_data()->set_bytes_to_index(progress.bytes_total);
  return agent_->Send(message);
}

}  // namespace evenstep::trainer
