#include "base/output_marker.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "base/unique_fd.h"

namespace evenstep {
namespace {

constexpr int64_t kMaxMarkerBytes = int64_t{1} << 20;

std::string MarkerPath(const std::string& folder) {
  return absl::StrCat(folder, "/", kOutputMarkerName);
}

}  // namespace

absl::Status MarkOutputs(const std::string& folder,
                         absl::Span<const absl::string_view> names) {
  const OutputMarks marked = ReadOutputMarks(folder);
  std::string lines;
  for (const absl::string_view name : names) {
    if (marked.Has(name) || name.find('\n') != absl::string_view::npos) {
      continue;
    }
    absl::StrAppend(&lines, name, "\n");
  }
  if (lines.empty()) return absl::OkStatus();
  const std::string path = MarkerPath(folder);
  // One write at the end, so that those of two processes do not mix.
  const UniqueFd fd(open(path.c_str(),
                         O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                         0644));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open", path);
  const ssize_t written = write(fd.get(), lines.data(), lines.size());
  if (written == static_cast<ssize_t>(lines.size())) return absl::OkStatus();
  return ErrnoStatus(written < 0 ? errno : ENOSPC, "cannot write", path);
}

absl::Status MarkOutput(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::NotFoundError(absl::StrCat("no regular file: ", path));
  }
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return MarkOutputs(".", {path});
  return MarkOutputs(slash == 0 ? "/" : path.substr(0, slash),
                     {absl::string_view(path).substr(slash + 1)});
}

OutputMarks ReadOutputMarks(const std::string& folder) {
  OutputMarks marks;
  const auto text = ReadWholeFile(MarkerPath(folder), kMaxMarkerBytes);
  if (!text.ok()) return marks;
  for (const absl::string_view line :
       absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    if (line == kAllOutputs) marks.all = true;
    marks.names.insert(std::string(line));
  }
  return marks;
}

std::vector<absl::string_view> ForeignFiles(
    const std::string& folder, absl::Span<const absl::string_view> names) {
  const OutputMarks marks = ReadOutputMarks(folder);
  std::vector<absl::string_view> foreign;
  for (const absl::string_view name : names) {
    std::error_code error;
    const auto path = std::filesystem::path(folder) / std::string(name);
    if (!marks.Has(name) && std::filesystem::exists(path, error)) {
      foreign.push_back(name);
    }
  }
  return foreign;
}

absl::Status ForeignFilesError(const std::string& folder,
                               absl::Span<const absl::string_view> names,
                               absl::string_view flag) {
  return absl::InvalidArgumentError(absl::StrCat(
      folder, " holds ", absl::StrJoin(names, ", "),
      ", which no earlier run wrote there and this one would replace; choose "
      "another ",
      flag));
}

}  // namespace evenstep
