#include "worker/agent/log_lines.h"

#include <algorithm>
#include <utility>

namespace evenstep::agent {
namespace {

bool IsContinuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// Whether a character of `size` bytes at the start of `text` is neither
// overlong, nor a surrogate, nor above U+10FFFF.
bool IsLegalStart(absl::string_view text, size_t size) {
  const auto first = static_cast<unsigned char>(text[0]);
  const auto second = static_cast<unsigned char>(text[1]);
  if (size == 2) return first >= 0xC2;
  if (first == 0xE0) return second >= 0xA0;
  if (first == 0xED) return second < 0xA0;
  if (first == 0xF0) return second >= 0x90;
  if (first == 0xF4) return second < 0x90;
  return first < 0xF5;
}

// Bytes of the valid character at the start of `text`; 0: none.
size_t ValidLength(absl::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const size_t size = first < 0xC0   ? 0
                      : first < 0xE0 ? 2
                      : first < 0xF0 ? 3
                                     : 4;
  if (size == 0 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if (!IsContinuation(text[i])) return 0;
  }
  return IsLegalStart(text, size) ? size : 0;
}

}  // namespace

std::string ToValidUtf8(absl::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t size = ValidLength(bytes);
    if (size == 0) {
      out += '?';
      bytes.remove_prefix(1);
    } else {
      out.append(bytes.data(), size);
      bytes.remove_prefix(size);
    }
  }
  return out;
}

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
