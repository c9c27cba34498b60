#include "base/strict_json.h"

#include <algorithm>
#include <exception>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/foreign_file.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "nlohmann/json.hpp"

namespace evenstep {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxQuotedBytes = 60;

struct Refused : std::exception {
  explicit Refused(std::string sentence) : sentence(std::move(sentence)) {}
  const char* what() const noexcept override { return sentence.c_str(); }
  std::string sentence;
};

// "line 2, column 7: ", of a byte's offset.
std::string Where(absl::string_view text, size_t offset) {
  const absl::string_view before = text.substr(0, offset);
  const size_t line_start = before.rfind('\n');
  const size_t column = line_start == absl::string_view::npos
                            ? before.size()
                            : before.size() - line_start - 1;
  return absl::StrCat("line ",
                      1 + std::count(before.begin(), before.end(), '\n'),
                      ", column ", column + 1, ": ");
}

// Watches what is parsed: depth, and the keys of each object that is open.
class Watcher {
 public:
  // A callback of the library; it keeps every value.
  bool Take(int depth, Json::parse_event_t event, const Json& value) {
    const auto level = static_cast<size_t>(depth);
    if (depth > kMaxJsonDepth) {
      throw Refused(
          absl::StrCat("it is nested more than ", kMaxJsonDepth, " deep"));
    }
    if (event == Json::parse_event_t::object_start) {
      keys_.resize(level + 1);
      keys_[level].clear();
    } else if (event == Json::parse_event_t::key) {
      // Keys are one level below their object.
      TakeKey(value.get_ref<const std::string&>(), &keys_[level - 1]);
    }
    return true;
  }

 private:
  static void TakeKey(const std::string& key, std::set<std::string>* keys) {
    if (keys->insert(key).second) return;
    throw Refused(absl::StrCat("an object has the key '",
                               Utf8Prefix(key, kMaxQuotedBytes), "' twice"));
  }

  std::vector<std::set<std::string>> keys_;
};

// Python's spelling, and other common slips, at the byte where the parser gave
// up; empty: none.
std::string Slip(absl::string_view text, size_t offset) {
  const absl::string_view rest = text.substr(std::min(offset, text.size()));
  for (const absl::string_view word : {"NaN", "Infinity", "-Infinity"}) {
    if (absl::StartsWith(rest, word)) {
      return absl::StrCat(word, " is not JSON; write null or a number");
    }
  }
  for (const auto& [word, json] :
       {std::pair<const char*, const char*>("True", "true"),
        {"False", "false"},
        {"None", "null"}}) {
    if (absl::StartsWith(rest, word)) {
      return absl::StrCat(word, " is Python; JSON says ", json);
    }
  }
  if (rest[0] == '\'') return "strings take double quotes, not single ones";
  if (rest[0] == '#' || absl::StartsWith(rest, "//")) {
    return "JSON has no comments";
  }
  if (rest[0] == '}' || rest[0] == ']') {
    const absl::string_view before =
        absl::StripTrailingAsciiWhitespace(text.substr(0, offset));
    if (absl::EndsWith(before, ","))
      return "a comma before the closing bracket";
  }
  return "";
}

// What the library says, without its name and its own count of lines. What it
// read last may be long and of any bytes.
std::string LibrarySentence(absl::string_view what) {
  const size_t at = what.find(": ");
  if (absl::StrContains(what, "parse_error") && at != absl::string_view::npos) {
    what.remove_prefix(at + 2);
  }
  const size_t last_read = what.find("; last read: '");
  if (last_read == absl::string_view::npos) {
    return ToValidUtf8(what.substr(0, 4 * kMaxQuotedBytes));
  }
  const size_t end = what.rfind('\'');
  absl::string_view quoted = what.substr(last_read, end - last_read);
  if (quoted.size() > kMaxQuotedBytes) {
    quoted.remove_prefix(quoted.size() - kMaxQuotedBytes);
    return ToValidUtf8(absl::StrCat(what.substr(0, last_read),
                                    "; last read: '...", quoted, "'"));
  }
  return ToValidUtf8(absl::StrCat(what.substr(0, last_read), quoted, "'"));
}

// Where the word begins that the parser could not take; it points into it.
size_t WordStart(absl::string_view text, size_t offset) {
  while (offset > 0 &&
         (absl::ascii_isalpha(text[offset - 1]) || text[offset - 1] == '-')) {
    --offset;
  }
  return offset;
}

absl::Status ParseError(absl::string_view text,
                        const Json::parse_error& error) {
  const absl::string_view what = error.what();
  const size_t offset =
      std::min(error.byte == 0 ? 0 : error.byte - 1, text.size());
  if (offset == text.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        Where(text, offset), "the text ends in the middle of a value"));
  }
  const bool in_string = absl::StrContains(what, "invalid string");
  const size_t start = in_string ? offset : WordStart(text, offset);
  std::string cause = in_string ? std::string() : Slip(text, start);
  if (cause.empty() && absl::EndsWith(what, "expected end of input")) {
    cause = "more text follows after the end of the value";
  }
  if (cause.empty()) cause = LibrarySentence(what);
  return absl::InvalidArgumentError(absl::StrCat(Where(text, start), cause));
}

absl::Status CheckBytes(absl::string_view text) {
  if (absl::StripAsciiWhitespace(text).empty()) {
    return absl::InvalidArgumentError("it is empty");
  }
  const std::string foreign =
      DescribeForeignFile(text.substr(0, kForeignFileBytes));
  if (!foreign.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("it is ", foreign));
  }
  const size_t nul = text.find('\0');
  if (nul == absl::string_view::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Where(text, nul), "a NUL byte, with ", text.size() - nul - 1,
                   " more bytes after it"));
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text) {
  EVENSTEP_RETURN_IF_ERROR(CheckBytes(text));
  Watcher watcher;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    return watcher.Take(depth, event, value);
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const Json::parse_error& error) {
    return ParseError(text, error);
  } catch (const std::exception& error) {  // Refused, a number out of range
    return absl::InvalidArgumentError(LibrarySentence(error.what()));
  }
}

}  // namespace evenstep
