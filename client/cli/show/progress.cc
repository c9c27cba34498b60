#include "client/cli/show/progress.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/show/format_value.h"

namespace evenstep::cli {
namespace {

// Speed and imbalance are means over this many steps, so that they do not jump.
constexpr size_t kWindow = 8;
constexpr int kWidestBar = 30;
constexpr int kNarrowestBar = 10;
constexpr char kGap[] = "  ";

}  // namespace

std::string DrawBar(int width, double share) {
  const int inner = width - 2;
  const int full = std::clamp(static_cast<int>(share * inner), 0, inner);
  std::string bar(full, '=');
  if (full > 0 && full < inner) bar.back() = '>';
  return absl::StrCat("[", bar, std::string(inner - full, ' '), "]");
}

void ProgressView::Add(const client::StepSummary& step) {
  steps_done_ = step.step + 1;
  loss_ = step.loss;
  if (step.evaluation) evaluation_loss_ = step.evaluation->loss;
  recent_.push_back(step);
  if (recent_.size() > kWindow) recent_.pop_front();
}

double ProgressView::TokensPerSecond() const {
  double tokens = 0;
  double seconds = 0;
  for (const client::StepSummary& step : recent_) {
    tokens += static_cast<double>(step.trained_tokens);
    seconds += step.step_seconds;
  }
  return seconds > 0 ? tokens / seconds : 0;
}

double ProgressView::IdleShare() const {
  double idle = 0;
  double seconds = 0;
  for (const client::StepSummary& step : recent_) {
    idle += step.idle_share * step.step_seconds;
    seconds += step.step_seconds;
  }
  return seconds > 0 ? idle / seconds : 0;
}

double ProgressView::SecondsToGo() const {
  if (recent_.empty()) return 0;
  double seconds = 0;
  for (const client::StepSummary& step : recent_) seconds += step.step_seconds;
  const double left = static_cast<double>(num_steps_ - steps_done_);
  return std::max(0.0, left) * seconds / static_cast<double>(recent_.size());
}

std::string ProgressView::StepPart() const {
  return absl::StrCat(steps_done_, "/", num_steps_, " steps");
}

std::string ProgressView::LossPart() const {
  std::string text = absl::StrFormat("loss %.4f", loss_);
  if (evaluation_loss_) {
    absl::StrAppendFormat(&text, " (held out %.4f)", *evaluation_loss_);
  }
  return text;
}

std::string ProgressView::Bar(int columns) const {
  std::vector<std::string> parts;
  if (steps_done_ > 0) {
    parts = {LossPart(),
             absl::StrCat("ETA ", FormatSpan(absl::Seconds(SecondsToGo()))),
             absl::StrCat(FormatCount(TokensPerSecond()), " tokens/s"),
             absl::StrCat("imbalance ", FormatShare(IdleShare()))};
  }
  std::string line = StepPart();
  const int wide_enough = static_cast<int>(line.size()) + 2 + kNarrowestBar;
  std::string tail;
  for (const std::string& part : parts) {
    const int width =
        wide_enough + static_cast<int>(tail.size() + 2 + part.size());
    if (width <= columns) tail += kGap + part;
  }
  const int room = columns - static_cast<int>(line.size() + tail.size()) - 2;
  if (room >= kNarrowestBar) {
    const double share =
        num_steps_ > 0 ? static_cast<double>(steps_done_) / num_steps_ : 0;
    line += kGap + DrawBar(std::min(room, kWidestBar), share);
  }
  line += tail;
  return line.substr(0, std::max(columns, 0));
}

std::string ProgressView::Line() const {
  std::string line = StepPart();
  if (steps_done_ == 0) return line;
  absl::StrAppendFormat(&line, "  %s  %s tokens/s  imbalance %s  ETA %s",
                        LossPart(), FormatCount(TokensPerSecond()),
                        FormatShare(IdleShare()),
                        FormatSpan(absl::Seconds(SecondsToGo())));
  return line;
}

}  // namespace evenstep::cli
