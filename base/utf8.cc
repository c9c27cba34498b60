#include "base/utf8.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/str_format.h"

namespace evenstep {
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

size_t FirstInvalidUtf8(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    // Eight bytes of ASCII at once, for most text is.
    uint64_t word = 0;
    if (text.size() - at >= sizeof(word)) {
      std::memcpy(&word, text.data() + at, sizeof(word));
      if ((word & 0x8080808080808080) == 0) {
        at += sizeof(word);
        continue;
      }
    }
    const size_t size = ValidLength(text.substr(at));
    if (size == 0) return at;
    at += size;
  }
  return absl::string_view::npos;
}

absl::Status CheckUtf8(absl::string_view what, absl::string_view text) {
  const size_t at = FirstInvalidUtf8(text);
  if (at == absl::string_view::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: byte %d is 0x%02x, which is not UTF-8", what, at + 1,
                      static_cast<unsigned char>(text[at])));
}

absl::string_view Utf8Prefix(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  while (max_bytes > 0 && IsContinuation(text[max_bytes])) --max_bytes;
  return text.substr(0, max_bytes);
}

absl::string_view Utf8Suffix(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  text.remove_prefix(text.size() - max_bytes);
  while (!text.empty() && IsContinuation(text[0])) text.remove_prefix(1);
  return text;
}

}  // namespace evenstep
