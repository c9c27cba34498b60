#ifndef EVENSTEP_CLIENT_CLI_SHOW_PROGRESS_H_
#define EVENSTEP_CLIENT_CLI_SHOW_PROGRESS_H_

// What is shown while a job trains: one line with the steps done (a step's own
// number, in logs and files, counts from 0), loss, speed, imbalance
// and time to go. Pure: fed with steps, asked for a line of a given width. Not
// thread-safe.
//
//   ProgressView view(100);
//   view.Add(step);
//   err << "\r" << view.Bar(80);

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "evenstep/job.h"

namespace evenstep::cli {

// "[====>     ]", `width` wide.
std::string DrawBar(int width, double share);

class ProgressView {
 public:
  explicit ProgressView(int64_t num_steps) : num_steps_(num_steps) {}

  void Add(const client::StepSummary& step);
  // A new attempt begins at step 0.
  void Restart() { *this = ProgressView(num_steps_); }

  int64_t steps_done() const { return steps_done_; }
  bool finished() const { return steps_done_ >= num_steps_; }

  // For a terminal: a bar and what fits beside it, at most `columns` wide.
  std::string Bar(int columns) const;
  // For a file: everything, without the bar.
  std::string Line() const;

 private:
  std::string StepPart() const;
  std::string LossPart() const;
  double TokensPerSecond() const;
  double IdleShare() const;
  double SecondsToGo() const;

  int64_t num_steps_;
  int64_t steps_done_ = 0;
  double loss_ = 0;
  std::optional<double> evaluation_loss_;  // of the newest one
  std::deque<client::StepSummary> recent_;
};

}  // namespace evenstep::cli

#endif  // EVENSTEP_CLIENT_CLI_SHOW_PROGRESS_H_
