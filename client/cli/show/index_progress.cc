#include "client/cli/show/index_progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/show/format_value.h"
#include "client/cli/show/progress.h"

namespace evenstep::cli {
namespace {

constexpr int kWidestBar = 30;
constexpr int kNarrowestBar = 10;
constexpr char kEraseLine[] = "\r\033[K";

// "  350 MB/s  ETA 21s"; nothing before there is a rate.
std::string RateAndTimeToGo(const data::IndexProgress& progress,
                            absl::Duration elapsed) {
  const double seconds = absl::ToDoubleSeconds(elapsed);
  if (progress.bytes_done == 0 || seconds <= 0) return "";
  const double rate = static_cast<double>(progress.bytes_done) / seconds;
  const double left =
      static_cast<double>(progress.bytes_total - progress.bytes_done);
  return absl::StrCat("  ", FormatBytes(rate), "/s  ETA ",
                      FormatSpan(absl::Seconds(left / rate)));
}

}  // namespace

std::string FormatIndexProgress(const data::IndexProgress& progress,
                                absl::Duration elapsed, int columns) {
  if (progress.waiting) {
    return "Waiting for another process that indexes this data";
  }
  const std::string head = absl::StrCat(
      "Indexing ", FormatPercent(progress.bytes_done, progress.bytes_total),
      " of ", FormatBytes(static_cast<double>(progress.bytes_total)));
  const std::string tail = RateAndTimeToGo(progress, elapsed);
  if (columns == 0) return absl::StrCat(head, tail);
  const int room = columns - static_cast<int>(head.size() + tail.size()) - 2;
  std::string bar;
  if (room >= kNarrowestBar) {
    const double share = progress.bytes_total == 0
                             ? 0
                             : static_cast<double>(progress.bytes_done) /
                                   static_cast<double>(progress.bytes_total);
    bar = absl::StrCat("  ", DrawBar(std::min(room, kWidestBar), share));
  }
  return absl::StrCat(head, bar, tail).substr(0, columns);
}

IndexProgressView::IndexProgressView(Environment& environment, bool quiet)
    : environment_(environment),
      quiet_(quiet),
      begin_(environment.clock->Monotonic()),
      next_(begin_ + kQuietStart) {}

absl::Status IndexProgressView::Show(const data::IndexProgress& progress) {
  // From here on an index may be half made: Ctrl-C is looked for.
  environment_.ends_at_once = false;
  if (environment_.interrupted.stop_requested()) {
    return absl::CancelledError("interrupted while the data was indexed");
  }
  const absl::Duration now = environment_.clock->Monotonic();
  if (quiet_ || now < next_) return absl::OkStatus();
  if (environment_.err_is_terminal && environment_.columns) {
    next_ = now + kBarInterval;
    environment_.err << kEraseLine
                     << FormatIndexProgress(
                            progress, now - begin_,
                            std::max(environment_.columns() - 1, 1))
                     << std::flush;
    bar_drawn_ = true;
  } else {
    next_ = now + kLineInterval;
    environment_.err << FormatIndexProgress(progress, now - begin_, 0)
                     << std::endl;
  }
  return absl::OkStatus();
}

void IndexProgressView::Finish() {
  if (bar_drawn_) environment_.err << kEraseLine << std::flush;
  bar_drawn_ = false;
}

}  // namespace evenstep::cli
