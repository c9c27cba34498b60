#ifndef EVENSTEP_CLIENT_CLI_SHOW_INDEX_PROGRESS_H_
#define EVENSTEP_CLIENT_CLI_SHOW_INDEX_PROGRESS_H_

// What is shown while a command indexes data, which it has to read once: on a
// terminal a bar that is redrawn, else a line now and then, both on stderr; and
// nothing where it is done within a blink, or with --quiet. Ctrl-C ends the
// indexing. Used from one thread.
//
//   IndexProgressView view(environment, global.quiet);
//   auto data = jobspec::OpenData(spec, view.Callback());
//   view.Finish();

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cli/environment.h"
#include "data/dataset.h"

namespace evenstep::cli {

// "Indexing 41% of 12.3 GB  [====>      ]  350 MB/s  ETA 21s", at most
// `columns` wide; 0: one without a bar, as wide as it is.
std::string FormatIndexProgress(const data::IndexProgress& progress,
                                absl::Duration elapsed, int columns);

class IndexProgressView {
 public:
  static constexpr absl::Duration kQuietStart = absl::Milliseconds(500);
  static constexpr absl::Duration kBarInterval = absl::Milliseconds(100);
  static constexpr absl::Duration kLineInterval = absl::Seconds(5);

  // `environment` outlives the view and its callbacks.
  IndexProgressView(Environment& environment, bool quiet);

  // CANCELLED once the command was interrupted.
  absl::Status Show(const data::IndexProgress& progress);
  data::IndexProgressFunction Callback() {
    return
        [this](const data::IndexProgress& progress) { return Show(progress); };
  }
  // Takes the bar away.
  void Finish();

 private:
  Environment& environment_;
  const bool quiet_;
  absl::Duration begin_;
  absl::Duration next_;  // draw, Clock::Monotonic
  bool bar_drawn_ = false;
};

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_SHOW_INDEX_PROGRESS_H_
