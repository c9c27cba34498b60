#include "worker/agent/log_lines.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace evenstep::agent {
std::vector<std::string> LineSplitter::Add(absl::string_view bytes) {
  std::vector<std::string> lines;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const absl::string_view piece = bytes.substr(0, end);
    const size_t room = kMaxLineBytes - partial_.size();
    partial_.append(piece.data(), std::min(room, piece.size()));
    if (piece.size() > room) overlong_ = true;
    if (end == absl::string_view::npos) break;
    lines.push_back(Finish());
    bytes.remove_prefix(end + 1);
  }
  return lines;
}

std::string LineSplitter::TakeRest() {
  return partial_.empty() ? std::string() : Finish();
}

std::string LineSplitter::Finish() {
  if (!partial_.empty() && partial_.back() == '\r') partial_.pop_back();
  std::string line = ToValidUtf8(partial_);
  if (overlong_) line += " [cut]";
  partial_.clear();
  overlong_ = false;
  return line;
}

LineRate::LineRate(double per_second)
    : per_second_(per_second), tokens_(2 * per_second) {}

bool LineRate::Allow(absl::Duration now) {
  if (started_) {
    tokens_ += per_second_ * absl::ToDoubleSeconds(now - last_);
    tokens_ = std::min(tokens_, 2 * per_second_);
  }
  started_ = true;
  last_ = now;
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

}  // namespace evenstep::agent
