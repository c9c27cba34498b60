#include "worker/agent/work_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/output_marker.h"
#include "base/status_macros.h"

namespace evenstep::agent {
namespace {

constexpr size_t kKeptAttemptFolders = 100;
constexpr int64_t kMaxIdBytes = 100;

absl::Status MakePrivateFolder(const std::string& path) {
  EVENSTEP_RETURN_IF_ERROR(MakeFolders(path));
  if (chmod(path.c_str(), 0700) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "cannot make private", path);
}

// Of the folder's place: a copy has another one. Not the disk's device number,
// which a restart of the machine may change (overlay, NFS, device mapper).
absl::StatusOr<std::string> Place(const std::string& work_dir) {
  struct stat found = {};
  if (stat(work_dir.c_str(), &found) != 0) {
    return ErrnoStatus(errno, "cannot look at", work_dir);
  }
  return absl::StrCat(found.st_ino);
}

// Of this machine's installation; empty where there is none, as in containers.
std::string MachineId() {
  const auto id = ReadWholeFile("/etc/machine-id", kMaxIdBytes);
  return id.ok() ? std::string(absl::StripAsciiWhitespace(*id)) : "";
}

}  // namespace

absl::Status MakeWorkFolder(const std::string& work_dir) {
  EVENSTEP_RETURN_IF_ERROR(MakePrivateFolder(work_dir));
  // Where it is within a folder of data, no job trains on its logs.
  EVENSTEP_RETURN_IF_ERROR(MarkOutputs(work_dir, {kAllOutputs}));
  EVENSTEP_RETURN_IF_ERROR(
      MakePrivateFolder(absl::StrCat(work_dir, "/sockets")));
  return MakePrivateFolder(absl::StrCat(work_dir, "/attempts"));
}

void PruneAttemptFolders(const std::string& work_dir) {
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>>
      found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(
           absl::StrCat(work_dir, "/attempts"), error)) {
    found.emplace_back(entry.last_write_time(error), entry.path());
  }
  std::sort(found.begin(), found.end());
  while (found.size() > kKeptAttemptFolders) {
    std::filesystem::remove_all(found.front().second, error);
    found.erase(found.begin());
  }
}

absl::StatusOr<std::string> FolderId(const std::string& work_dir) {
  const std::string path = absl::StrCat(work_dir, "/folder-id");
  EVENSTEP_ASSIGN_OR_RETURN(const std::string place, Place(work_dir));
  auto id = ReadWholeFile(path, kMaxIdBytes);
  if (!id.ok() || id->empty()) {
    id = RandomName();
    EVENSTEP_RETURN_IF_ERROR(WriteFileAtomically(path, *id));
  }
  return absl::StrCat(*id, "-", place, "-", MachineId());
}

std::string RandomName() {
  absl::BitGen random;
  return absl::StrCat(
      absl::Hex(absl::Uniform<uint64_t>(random), absl::kZeroPad16));
}

}  // namespace evenstep::agent
