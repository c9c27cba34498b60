#include "client/cli/output_file.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/output_marker.h"
#include "base/status_macros.h"

namespace evenstep::cli {
namespace {

namespace fs = std::filesystem;

// Where permissions do not tell, such as in /proc, only trying does.
bool CanMakeFile(const std::string& folder) {
  std::string path = folder + "/.evenstep-output-XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0) return false;
  close(file);
  unlink(path.c_str());
  return true;
}

std::string FolderOf(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path().string() : ".";
}

}  // namespace

absl::Status CheckReplaces(absl::string_view flag, const std::string& path) {
  const std::string folder = FolderOf(path);
  const std::string name = fs::path(path).filename().string();
  std::error_code error;
  const bool empty = fs::file_size(path, error) == 0 && !error;
  if (empty || ForeignFiles(folder, {name}).empty()) return absl::OkStatus();
  return ForeignFilesError(folder, {name}, flag);
}

absl::Status CheckOutputFile(absl::string_view flag, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::error_code error;
  const std::string folder = FolderOf(path);
  if (!fs::is_directory(folder, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", path, ": there is no folder ", folder));
  }
  if (fs::is_directory(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", path, " is a folder; name a file in it"));
  }
  const fs::file_status there = fs::symlink_status(path, error);
  if (fs::exists(there) && !fs::is_regular_file(there)) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " ", path, " is not a regular file; it would be replaced"));
  }
  if (!CanMakeFile(folder) ||
      (fs::exists(there) && access(path.c_str(), W_OK) != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", path, ": it cannot be written"));
  }
  return CheckReplaces(flag, path);
}

}  // namespace evenstep::cli
