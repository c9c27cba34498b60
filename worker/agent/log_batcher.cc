#include "worker/agent/log_batcher.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace evenstep::agent {
namespace {

constexpr int kMaxLines = 200;
constexpr size_t kMaxBytes = 64 << 10;

}  // namespace

LogBatcher::LogBatcher(std::function<void(v1::LogBatch)> send)
    : send_(std::move(send)) {}

void LogBatcher::Add(int rank, int attempt, absl::Time now,
                     const OutputLines& output) {
  for (const std::string& line : output.lines) {
    AddLine(rank, attempt, now, line);
  }
  if (output.num_dropped > 0) {
    AddLine(rank, attempt, now,
            absl::StrCat("[", output.num_dropped,
                         " lines were not sent: too many a second; they are in "
                         "the log file on the node]"));
  }
}

void LogBatcher::AddLine(int rank, int attempt, absl::Time now,
                         const std::string& text) {
  v1::LogLine* line = batch_.add_lines();
  const timespec time = absl::ToTimespec(now);
  line->mutable_time()->set_seconds(time.tv_sec);
  line->mutable_time()->set_nanos(static_cast<int32_t>(time.tv_nsec));
  line->set_rank(rank);
  line->set_attempt(attempt);
  line->set_text(text);
  batch_bytes_ += text.size();
  if (batch_.lines_size() >= kMaxLines || batch_bytes_ >= kMaxBytes) Flush();
}

void LogBatcher::Flush() {
  if (batch_.lines().empty()) return;
  send_(std::exchange(batch_, v1::LogBatch()));
  batch_bytes_ = 0;
}

}  // namespace evenstep::agent
