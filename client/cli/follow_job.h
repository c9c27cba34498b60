#ifndef EVENSTEP_CLIENT_CLI_FOLLOW_JOB_H_
#define EVENSTEP_CLIENT_CLI_FOLLOW_JOB_H_

// Shows a job's way to its end on stderr: a bar on a terminal, now and then a
// line otherwise. Used by `submit`, `wait` and `local`. One thread.

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/environment.h"
#include "client/cli/show/output.h"
#include "client/cli/show/progress.h"

namespace evenstep::cli {

class ProgressPrinter {
 public:
  ProgressPrinter(Environment& environment, const GlobalOptions& options,
                  int64_t num_steps);

  void OnStep(const client::StepSummary& step);
  void OnEvent(const client::JobEvent& event);
  // Why a queued job waits; said when it changes.
  void OnPending(const client::Job& job);
  // A message that does not tear the bar.
  void Say(const std::string& text);
  // Leaves the bar as it is and goes on in the next line.
  void Finish();

 private:
  void DrawBar();
  void EraseBar();

  Environment& environment_;
  const bool quiet_;
  ProgressView view_;
  int attempt_ = 0;
  std::string pending_;  // as said last
  bool bar_drawn_ = false;
  absl::Duration last_line_ = -absl::InfiniteDuration();
};

struct FollowOptions {
  client::StreamOptions stream;
  client::WatchCursor* cursor =
      nullptr;  // where to go on; null: from the start
  // How often a queued job is asked why it waits.
  absl::Duration pending_interval = absl::Milliseconds(500);
  // Also told; may be empty.
  std::function<void(const client::WatchItem&)> on_item;
};

// Until the job has ended: returns it, whatever the outcome.
absl::StatusOr<client::Job> FollowJob(client::Client& client,
                                      const client::Job& job,
                                      const FollowOptions& options,
                                      ProgressPrinter& printer);

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_FOLLOW_JOB_H_
