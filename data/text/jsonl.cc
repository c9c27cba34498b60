#include "data/text/jsonl.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/text/json_document.h"
#include "data/text/json_parser.h"
#include "data/text/unpack.h"

namespace evenstep::data {
namespace {

bool IsBlank(absl::string_view line) {
  return line.find_first_not_of(" \t\r") == absl::string_view::npos;
}

// Cuts a stream of chunks into lines.
class LineCutter {
 public:
  explicit LineCutter(const std::function<void(const JsonLine&)>& visit)
      : visit_(visit) {}

  void Take(absl::string_view chunk) {
    while (!chunk.empty()) {
      const size_t end = chunk.find('\n');
      if (end == absl::string_view::npos) return Keep(chunk);
      if (kept_bytes_ == 0) {
        Emit(chunk.substr(0, end), static_cast<int64_t>(end));
      } else {
        Keep(chunk.substr(0, end));
        EmitKept();
      }
      ++offset_;  // the line end
      chunk.remove_prefix(end + 1);
    }
  }

  void Finish() {
    if (kept_bytes_ > 0) EmitKept();
  }

 private:
  void Keep(absl::string_view part) {
    kept_bytes_ += static_cast<int64_t>(part.size());
    if (kept_bytes_ <= kMaxJsonLineBytes) {
      kept_.append(part.data(), part.size());
    }
  }

  void EmitKept() {
    const absl::string_view kept = kept_;
    Emit(kept_bytes_ <= kMaxJsonLineBytes ? kept : absl::string_view(),
         kept_bytes_);
    kept_.clear();
    kept_bytes_ = 0;
  }

  void Emit(absl::string_view content, int64_t bytes) {
    ++number_;
    const bool blank =
        content.size() == static_cast<size_t>(bytes) && IsBlank(content);
    if (!blank) visit_({number_, offset_, bytes, content});
    offset_ += bytes;
  }

  const std::function<void(const JsonLine&)>& visit_;
  std::string kept_;
  int64_t kept_bytes_ = 0;
  int64_t number_ = 0;
  int64_t offset_ = 0;
};

// Cuts a stream of chunks into JSON values, by brackets and quotes alone: what
// a value holds is for the parser to judge.
class ValueCutter {
 public:
  explicit ValueCutter(const std::function<void(const JsonLine&)>& visit)
      : visit_(visit) {}

  // False: what follows is not looked at.
  bool Take(absl::string_view chunk) {
    size_t begin = 0;  // of the value's part in this chunk
    for (size_t i = 0; i < chunk.size(); ++i, ++offset_) {
      if (!in_value_ && !Begins(chunk[i])) {
        if (!problem_.empty()) return false;
        continue;
      }
      if (!std::exchange(in_value_, true)) {
        begin = i;
        value_.offset = offset_;
        ++value_.number;
      }
      if (Ends(chunk[i])) {
        Keep(chunk.substr(begin, i + 1 - begin));
        Emit();
        begin = i + 1;
      }
    }
    if (in_value_) Keep(chunk.substr(begin));
    return true;
  }

  absl::Status Finish() {
    if (in_value_) Emit();
    if (problem_.empty() && list_ == List::kOpen) {
      problem_ = absl::StrCat(
          "cut off: the list of records is not closed at "
          "the end of the file, byte ",
          offset_);
    }
    if (problem_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(problem_);
  }

 private:
  enum class List { kNone, kOpen, kClosed };

  // Whether a value begins with `c`, which is between values.
  bool Begins(char c) {
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') return false;
    if (offset_ < static_cast<int64_t>(kUtf8Mark.size()) &&
        c == kUtf8Mark[static_cast<size_t>(offset_)]) {
      return false;
    }
    if (c == '[' && list_ == List::kNone && value_.number == 0) {
      list_ = List::kOpen;
      return false;
    }
    const bool in_list = list_ == List::kOpen;
    if (in_list && c == ',' && std::exchange(may_separate_, false)) {
      return false;
    }
    if (in_list && c == ']' && (may_separate_ || value_.number == 0)) {
      list_ = List::kClosed;
      return false;
    }
    if (c == '{' && (list_ == List::kNone || (in_list && !may_separate_))) {
      return true;
    }
    problem_ = absl::StrCat("byte ", offset_ + 1,
                            list_ == List::kClosed
                                ? " follows the list of records"
                                : " is where an object should begin: records "
                                  "are objects, one after the other or in one "
                                  "list");
    return false;
  }

  // Whether the value ends with `c`.
  bool Ends(char c) {
    if (std::exchange(escaped_, false)) return false;
    if (in_string_) {
      escaped_ = c == '\\';
      in_string_ = c != '"';
      return false;
    }
    in_string_ = c == '"';
    if (c == '{' || c == '[') ++depth_;
    if (c == '}' || c == ']') --depth_;
    return depth_ == 0 && !in_string_;
  }

  void Keep(absl::string_view part) {
    value_.bytes += static_cast<int64_t>(part.size());
    if (value_.bytes <= kMaxJsonLineBytes)
      kept_.append(part.data(), part.size());
  }

  void Emit() {
    if (value_.bytes <= kMaxJsonLineBytes) value_.content = kept_;
    visit_(value_);
    kept_.clear();
    value_.content = {};
    value_.bytes = 0;
    depth_ = 0;
    in_value_ = in_string_ = escaped_ = false;
    may_separate_ = true;
  }

  const std::function<void(const JsonLine&)>& visit_;
  JsonLine value_;    // the newest
  std::string kept_;  // of it
  int64_t offset_ = 0;
  int64_t depth_ = 0;
  bool in_value_ = false;
  bool in_string_ = false;
  bool escaped_ = false;
  bool may_separate_ = false;  // a comma
  List list_ = List::kNone;
  std::string problem_;
};

// Cuts what `read` hands over.
absl::Status Cut(
    TextLayout layout, const std::function<void(const JsonLine&)>& visit,
    const std::function<absl::Status(const Unpacker::Take&)>& read) {
  if (layout == TextLayout::kValues) {
    ValueCutter cutter(visit);
    EVENSTEP_RETURN_IF_ERROR(
        read([&](absl::string_view chunk) { return cutter.Take(chunk); }));
    return cutter.Finish();
  }
  LineCutter cutter(visit);
  EVENSTEP_RETURN_IF_ERROR(read([&](absl::string_view chunk) {
    cutter.Take(chunk);
    return true;
  }));
  cutter.Finish();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TextDocument> ParseJsonDocument(absl::string_view record) {
  EVENSTEP_ASSIGN_OR_RETURN(nlohmann::json object, ParseJsonRecord(record));
  return DocumentOfRecord(&object);
}

absl::StatusOr<TextDocument> ParseJsonDocument(const JsonLine& line) {
  if (line.bytes <= kMaxJsonLineBytes) return ParseJsonDocument(line.content);
  return absl::InvalidArgumentError(
      absl::StrCat("the record has ", line.bytes, " bytes, more than ",
                   kMaxJsonLineBytes, "; split it"));
}

absl::Status ScanJsonRecords(const std::string& path, TextLayout layout,
                             const std::function<void(const JsonLine&)>& visit,
                             const std::function<bool()>& goes_on) {
  return Cut(layout, visit, [&](const Unpacker::Take& take) {
    return ReadUnpacked(path, kMaxUnpackedBytes, [&](absl::string_view chunk) {
      return take(chunk) && (goes_on == nullptr || goes_on());
    });
  });
}

absl::Status CutJsonRecords(absl::string_view text, TextLayout layout,
                            const std::function<void(const JsonLine&)>& visit) {
  return Cut(layout, visit, [&](const Unpacker::Take& take) {
    take(text);
    return absl::OkStatus();
  });
}

}  // namespace evenstep::data
