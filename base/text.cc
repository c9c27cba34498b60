#include "base/text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

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

namespace {

// Longer names are no slips of the finger, and would cost time.
constexpr size_t kMaxComparedLetters = 64;

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(absl::string_view name,
                        const std::vector<std::string>& known) {
  if (name.size() > kMaxComparedLetters) return "";
  std::string nearest;
  // Two letters swapped are two edits.
  const size_t allowed =
      name.size() < 4 ? 1 : std::max<size_t>(2, name.size() / 3);
  size_t least = allowed + 1;
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string KnownNamesHint(absl::string_view name,
                           const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  const std::string question =
      nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?");
  return absl::StrCat(question, question.empty() ? ";" : "",
                      " known: ", absl::StrJoin(known, ", "));
}

}  // namespace evenstep
