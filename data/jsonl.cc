#include "data/jsonl.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/unique_fd.h"

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

}  // namespace

absl::StatusOr<std::string> ParseJsonText(absl::string_view line) {
  if (line.empty() || line.size() > kMaxJsonLineBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "line is empty or longer than ", kMaxJsonLineBytes, " bytes"));
  }
  nlohmann::json object = nlohmann::json::parse(
      line.begin(), line.end(), /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) {
    return absl::InvalidArgumentError("line is not JSON");
  }
  if (!object.is_object()) {
    return absl::InvalidArgumentError("line is not a JSON object");
  }
  const auto text = object.find("text");
  if (text == object.end()) {
    return absl::InvalidArgumentError("object has no field `text`");
  }
  if (!text->is_string()) {
    return absl::InvalidArgumentError("field `text` is not a string");
  }
  return std::move(text->get_ref<std::string&>());
}

absl::Status ScanJsonLines(const std::string& path,
                           const std::function<void(const JsonLine&)>& visit) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open", path);
  LineCutter cutter(visit);
  std::string buffer(1 << 20, '\0');
  while (true) {
    const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "cannot read", path);
    if (got == 0) break;
    cutter.Take(absl::string_view(buffer.data(), static_cast<size_t>(got)));
  }
  cutter.Finish();
  return absl::OkStatus();
}

}  // namespace evenstep::data
