#include "client/cli/follow_job.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

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

void ProgressPrinter::Say(const std::string& text) {
  if (quiet_) return;
  const bool redraw = bar_drawn_;
  EraseBar();
  environment_.err << text << std::endl;
  if (redraw && !view_.finished()) DrawBar();
}

void ProgressPrinter::Finish() {
  if (bar_drawn_) environment_.err << std::endl;
  bar_drawn_ = false;
}

absl::StatusOr<client::Job> FollowJob(client::Client& client,
                                      const client::Job& job,
                                      const FollowOptions& options,
                                      ProgressPrinter& printer) {
  client::WatchCursor from_start;
  client::WatchCursor* const cursor =
      options.cursor != nullptr ? options.cursor : &from_start;
  const absl::Status status = client.Watch(job.id, cursor, options.stream,
                                           [&](const client::WatchItem& item) {
                                             if (item.event != nullptr)
                                               printer.OnEvent(*item.event);
                                             if (item.step != nullptr)
                                               printer.OnStep(*item.step);
                                             if (options.on_item)
                                               options.on_item(item);
                                             return client::Follow::kContinue;
                                           });
  printer.Finish();
  EVENSTEP_RETURN_IF_ERROR(status);
  return client.Get(job.id);
}

}  // namespace evenstep::cli
