#include "data/text/glob.h"

#include <cstddef>

#include "absl/strings/strip.h"

namespace evenstep::data {
namespace {

// Length of the set with which the pattern begins, brackets included; 0: there
// is no end to it, and the bracket means itself.
size_t SetLength(absl::string_view pattern) {
  size_t first = 1;
  if (pattern.size() > 1 && pattern[1] == '!') ++first;
  // A bracket that comes first is a member.
  const size_t end = pattern.find(']', first + 1);
  return end == absl::string_view::npos ? 0 : end + 1;
}

bool IsInSet(absl::string_view members, char byte) {
  const auto value = static_cast<unsigned char>(byte);
  for (size_t i = 0; i < members.size(); ++i) {
    const auto low = static_cast<unsigned char>(members[i]);
    auto high = low;
    if (i + 2 < members.size() && members[i + 1] == '-') {
      high = static_cast<unsigned char>(members[i + 2]);
      i += 2;
    }
    if (low <= value && value <= high) return true;
  }
  return false;
}

// How much of the pattern matches one byte; 0: it does not.
size_t MatchOne(absl::string_view pattern, char byte) {
  if (pattern.empty()) return 0;
  if (pattern[0] == '[') {
    if (const size_t length = SetLength(pattern)) {
      absl::string_view members = pattern.substr(1, length - 2);
      const bool negated = absl::ConsumePrefix(&members, "!");
      return IsInSet(members, byte) != negated ? length : 0;
    }
  }
  return pattern[0] == '?' || pattern[0] == byte ? 1 : 0;
}

}  // namespace

bool IsPattern(absl::string_view text) {
  return text.find_first_of("*?[") != absl::string_view::npos;
}

bool MatchesPart(absl::string_view pattern, absl::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = absl::string_view::npos;  // where the last `*` stands
  size_t retry = 0;                       // where its match may end next
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = n;
    } else if (const size_t length = MatchOne(pattern.substr(p), name[n])) {
      p += length;
      ++n;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      n = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace evenstep::data
