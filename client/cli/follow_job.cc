#include "client/cli/follow_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/cli/show/printable_text.h"

namespace evenstep::cli {
namespace {

constexpr absl::Duration kLineInterval = absl::Seconds(5);
constexpr char kEraseLine[] = "\r\033[K";

}  // namespace

ProgressPrinter::ProgressPrinter(Environment& environment,
                                 const GlobalOptions& options,
                                 int64_t num_steps)
    : environment_(environment), quiet_(options.quiet), view_(num_steps) {}

void ProgressPrinter::DrawBar() {
  environment_.err << kEraseLine << view_.Bar(environment_.columns() - 1)
                   << std::flush;
  bar_drawn_ = true;
}

void ProgressPrinter::EraseBar() {
  if (bar_drawn_) environment_.err << kEraseLine;
  bar_drawn_ = false;
}

void ProgressPrinter::OnStep(const client::StepSummary& step) {
  view_.Add(step);
  if (quiet_) return;
  if (environment_.err_is_terminal) return DrawBar();
  const absl::Duration now = environment_.clock->Monotonic();
  if (now - last_line_ < kLineInterval && !view_.finished()) return;
  last_line_ = now;
  environment_.err << view_.Line() << std::endl;
}

void ProgressPrinter::OnEvent(const client::JobEvent& event) {
  if (event.attempt > attempt_) {
    attempt_ = event.attempt;
    view_.Restart();
  }
  std::string text(client::JobStateName(event.state));
  if (!event.message.empty()) absl::StrAppend(&text, ": ", event.message);
  Say(text);
}

void ProgressPrinter::OnPending(const client::Job& job) {
  const std::string text = absl::StrCat(
      "Waits (", job.reason, "), position ", job.queue_position,
      " in the queue", job.message.empty() ? "" : ": ", job.message);
  if (job.queue_position == 0 || text == pending_) return;
  pending_ = text;
  Say(text);
}

void ProgressPrinter::Say(const std::string& text) {
  if (quiet_) return;
  const bool redraw = bar_drawn_;
  EraseBar();
  environment_.err << PrintableText(text) << std::endl;
  if (redraw && !view_.finished()) DrawBar();
}

void ProgressPrinter::Finish() {
  if (bar_drawn_) environment_.err << std::endl;
  bar_drawn_ = false;
}

namespace {

// One stream at a time over a job's life: while it is queued the stream is
// interrupted to ask why, because waiting is not an event.
class Follower {
 public:
  Follower(client::Client& client, const client::Job& job,
           const FollowOptions& options, ProgressPrinter& printer)
      : client_(client),
        job_id_(job.id),
        options_(options),
        printer_(printer),
        queued_(job.state == client::JobState::kQueued) {}

  absl::Status Run() {
    client::WatchCursor from_start;
    client::WatchCursor* const cursor =
        options_.cursor != nullptr ? options_.cursor : &from_start;
    while (true) {
      client::StreamOptions stream = options_.stream;
      if (queued_) {
        stream.deadline =
            std::min(stream.deadline, absl::Now() + options_.pending_interval);
      }
      left_to_ask_ = false;
      const bool asked = queued_;
      absl::Status status = client_.Watch(
          job_id_, cursor, stream,
          [this](const client::WatchItem& item) { return Deliver(item); });
      if (left_to_ask_) continue;
      const bool only_a_pause = asked && absl::IsDeadlineExceeded(status) &&
                                absl::Now() < options_.stream.deadline;
      if (!only_a_pause) return status;
      ShowPending();
    }
  }

 private:
  client::Follow Deliver(const client::WatchItem& item) {
    const auto* event = std::get_if<client::JobEvent>(&item);
    if (event != nullptr) printer_.OnEvent(*event);
    if (event == nullptr) printer_.OnStep(std::get<client::StepSummary>(item));
    if (options_.on_item) options_.on_item(item);
    if (event == nullptr) return client::Follow::kContinue;
    const bool was_queued =
        std::exchange(queued_, event->state == client::JobState::kQueued);
    left_to_ask_ = queued_ && !was_queued;
    return left_to_ask_ ? client::Follow::kStop : client::Follow::kContinue;
  }

  // Without an answer the stream is left to come back, which has more patience.
  void ShowPending() {
    const auto job = client_.Get(job_id_);
    if (!job.ok()) {
      queued_ = false;
    } else if (job->state == client::JobState::kQueued) {
      printer_.OnPending(*job);
    }
  }

  client::Client& client_;
  const std::string job_id_;
  const FollowOptions& options_;
  ProgressPrinter& printer_;
  bool queued_;
  bool left_to_ask_ = false;
};

}  // namespace

absl::StatusOr<client::Job> FollowJob(client::Client& client,
                                      const client::Job& job,
                                      const FollowOptions& options,
                                      ProgressPrinter& printer) {
  const absl::Status status = Follower(client, job, options, printer).Run();
  printer.Finish();
  EVENSTEP_RETURN_IF_ERROR(status);
  return client.Get(job.id);
}

}  // namespace evenstep::cli
