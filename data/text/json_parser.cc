#include "data/text/json_parser.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text.h"

namespace evenstep::data {
namespace {

using Json = nlohmann::json;

constexpr char kBlanks[] = " \t\r\n";
constexpr size_t kNowhere = absl::string_view::npos;

// Builds the value, and notes what the library would pass over.
class RecordBuilder : public nlohmann::json_sax<Json> {
 public:
  Json Take() { return std::move(root_); }
  // What the library did not refuse; empty: nothing.
  const std::string& problem() const { return problem_; }
  // Where the library stopped, from 1, and what it says.
  size_t error_at() const { return error_at_; }
  const std::string& error() const { return error_; }
  const std::string& last_token() const { return last_token_; }
  // Whether the value was whole when the error came.
  bool is_whole() const { return is_whole_; }

  bool null() override { return Put(nullptr) != nullptr; }
  bool boolean(bool value) override { return Put(value) != nullptr; }
  bool number_integer(number_integer_t value) override {
    return Put(value) != nullptr;
  }
  bool number_unsigned(number_unsigned_t value) override {
    return Put(value) != nullptr;
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override {
    return Put(value) != nullptr;
  }
  bool string(string_t& value) override {
    return Put(std::move(value)) != nullptr;
  }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*size*/) override {
    return Open(Json::object());
  }
  bool key(string_t& key) override {
    const auto [place, is_new] = open_.back()->emplace(key, nullptr);
    if (!is_new) problem_ = absl::StrCat("the key `", key, "` is there twice");
    value_ = &*place;
    return is_new;
  }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t /*size*/) override {
    return Open(Json::array());
  }
  bool end_array() override { return Close(); }
  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& error) override {
    error_at_ = position;
    last_token_ = last_token;
    error_ = error.what();
    return false;
  }

 private:
  Json* Put(Json value) {
    Json* place = &root_;
    if (!open_.empty()) {
      place = value_;
      if (open_.back()->is_array()) {
        open_.back()->emplace_back();
        place = &open_.back()->back();
      }
    }
    *place = std::move(value);
    is_whole_ = open_.empty();
    return place;
  }

  bool Open(Json value) {
    if (open_.size() == kMaxRecordDepth) {
      problem_ = absl::StrCat("nested deeper than ", kMaxRecordDepth,
                              " objects and lists");
      return false;
    }
    open_.push_back(Put(std::move(value)));
    is_whole_ = false;
    return true;
  }

  bool Close() {
    open_.pop_back();
    is_whole_ = open_.empty();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;
  Json* value_ = nullptr;  // of the newest key
  bool is_whole_ = false;
  std::string problem_;
  size_t error_at_ = 0;
  std::string last_token_;
  std::string error_;
};

// Where the text's first value ends, which is an object or a list and whole.
size_t EndOfValue(absl::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return i + 1;
    }
  }
  return text.size();
}

// Of an escape `\uXXXX` at `at`; 0: there is none.
unsigned int EscapedCode(absl::string_view text, size_t at) {
  unsigned int code = 0;
  if (at + 6 > text.size() || text.substr(at, 2) != "\\u" ||
      !absl::SimpleHexAtoi(text.substr(at + 2, 4), &code)) {
    return 0;
  }
  return code;
}

// A `\uD800` to `\uDFFF` without its other half.
size_t FirstLoneSurrogate(absl::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') continue;
    const unsigned int code = EscapedCode(text, i);
    if (code >= 0xDC00 && code <= 0xDFFF) return i;
    if (code >= 0xD800 && code <= 0xDBFF) {
      const unsigned int next = EscapedCode(text, i + 6);
      if (next < 0xDC00 || next > 0xDFFF) return i;
      i += 6;
    }
    ++i;  // what is escaped
  }
  return kNowhere;
}

// The last byte before `at` that is no blank.
size_t LastBefore(absl::string_view text, size_t at) {
  return at == 0 ? kNowhere : text.find_last_not_of(kBlanks, at - 1);
}

// `at` is an index, from 0.
std::string UnexpectedReason(absl::string_view text, size_t at) {
  // The library stops within a word that is none of JSON's.
  while (at > 0 && absl::ascii_isalpha(static_cast<unsigned char>(text[at])) &&
         absl::ascii_isalpha(static_cast<unsigned char>(text[at - 1]))) {
    --at;
  }
  const absl::string_view rest = text.substr(at);
  const size_t place = at + 1;
  if (rest[0] == '\'') {
    return absl::StrCat("a single quote at byte ", place,
                        ", as Python prints: JSON has double quotes (write it "
                        "with json.dumps)");
  }
  for (const absl::string_view word : {"NaN", "Infinity"}) {
    if (absl::StartsWith(rest, word)) {
      return absl::StrCat(word, " at byte ", place,
                          " is not JSON; write null or leave it out");
    }
  }
  for (const absl::string_view word : {"None", "True", "False"}) {
    if (absl::StartsWith(rest, word)) {
      return absl::StrCat(word, " at byte ", place,
                          " is Python, not JSON (write it with json.dumps)");
    }
  }
  const size_t before = LastBefore(text, at);
  if ((rest[0] == '}' || rest[0] == ']') && before != kNowhere &&
      text[before] == ',') {
    return absl::StrCat("a comma too many at byte ", before + 1);
  }
  const auto byte = static_cast<unsigned char>(rest[0]);
  return absl::StrCat("not JSON: ",
                      absl::ascii_isprint(byte)
                          ? absl::StrCat("`", rest.substr(0, 1), "`")
                          : absl::StrFormat("0x%02x", byte),
                      " at byte ", place, " does not belong there");
}

std::string CutOffReason(absl::string_view text, bool in_string) {
  return absl::StrCat("cut off: the record ends after byte ", text.size(),
                      in_string ? ", within a string" : ", before it is closed",
                      "; a record is one object on one line");
}

// Why the library refused the text.
std::string Explain(absl::string_view text, const RecordBuilder& builder) {
  const size_t invalid = FirstInvalidUtf8(text);
  if (invalid != kNowhere) {
    return absl::StrFormat(
        "byte %d is 0x%02x, which is not UTF-8 (Latin-1?); convert the file, "
        "such as with `iconv -f latin1 -t utf-8`",
        invalid + 1, static_cast<unsigned char>(text[invalid]));
  }
  if (builder.is_whole()) {
    const size_t extra = text.find_first_not_of(kBlanks, EndOfValue(text));
    return absl::StrCat("extra data at byte ",
                        extra == kNowhere ? builder.error_at() : extra + 1,
                        ", after the record's end; a line has one record");
  }
  const std::string& error = builder.error();
  const size_t at = builder.error_at() == 0 ? 0 : builder.error_at() - 1;
  if (absl::StrContains(error, "surrogate")) {
    const size_t lone = FirstLoneSurrogate(text);
    if (lone != kNowhere) {
      return absl::StrCat("a lone surrogate ", text.substr(lone, 6),
                          " at byte ", lone + 1,
                          ", which is half a character; repair the text");
    }
  }
  if (absl::StrContains(error, "missing closing quote")) {
    return CutOffReason(text, /*in_string=*/true);
  }
  if (absl::StrContains(error, "unexpected end of input") ||
      at >= text.size()) {
    return CutOffReason(text, /*in_string=*/false);
  }
  if (absl::StrContains(error, "control character")) {
    return absl::StrFormat(
        "a control character 0x%02x at byte %d, within a string; escape it "
        "(\\n, \\t, \\u0000)",
        static_cast<unsigned char>(text[at]), at + 1);
  }
  if (absl::StrContains(error, "number overflow")) {
    return absl::StrCat("the number ", builder.last_token(), " at byte ",
                        at + 2 - builder.last_token().size(),
                        " is too large for a double");
  }
  if (absl::StrContains(error, "forbidden character after backslash") ||
      absl::StrContains(error, "must be followed by 4 hex digits")) {
    return absl::StrCat("the escape at byte ", text.rfind('\\', at) + 1,
                        " is none of JSON's; write a backslash as \\\\");
  }
  return UnexpectedReason(text, at);
}

absl::Status Bad(absl::string_view reason) {
  return absl::InvalidArgumentError(reason);
}

}  // namespace

absl::StatusOr<Json> ParseJsonRecord(absl::string_view text) {
  if (text.find_first_not_of(kBlanks) == kNowhere) {
    return Bad("the line is empty");
  }
  // The library takes a NUL for the end of the text.
  const size_t nul = text.find('\0');
  if (nul != kNowhere) {
    return Bad(absl::StrCat("a NUL at byte ", nul + 1,
                            ", which JSON does not have; remove it"));
  }
  RecordBuilder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    return Bad(builder.problem().empty() ? Explain(text, builder)
                                         : builder.problem());
  }
  Json record = builder.Take();
  if (record.is_object()) return record;
  return Bad(absl::StrCat(
      "the record is ", KindOf(record), ", not an object",
      record.is_array() ? "; name a file that is one list of records *.json"
                        : ""));
}

std::string KindOf(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  if (value.is_string()) return "a string";
  if (value.is_number()) return "a number";
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  return "null";
}

}  // namespace evenstep::data
