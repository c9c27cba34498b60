#include "data/text/unpacked_records.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "data/index/indexed_file.h"
#include "data/text/jsonl.h"

namespace evenstep::data {
namespace {

absl::StatusOr<int> OpenTemporary() {
  std::error_code error;
  std::string folder = std::filesystem::temp_directory_path(error).string();
  if (error) folder = "/tmp";
  std::string path = absl::StrCat(folder, "/evenstep-unpacked-XXXXXX");
  const int fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "cannot make a file in", folder);
  unlink(path.c_str());
  return fd;
}

absl::Status WriteAll(int fd, absl::string_view bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written =
        pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return ErrnoStatus(errno, "no room for unpacked data;",
                         "unpack it yourself, or set TMPDIR");
    }
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> UnpackedRecords::Read(int64_t file,
                                                  const std::string& path,
                                                  TextLayout layout,
                                                  int64_t number) {
  Place place;
  int fd = -1;
  {
    const absl::MutexLock lock(&mutex_);
    EVENSTEP_ASSIGN_OR_RETURN(const Places* const places,
                              Find(file, path, layout));
    if (number < 1 || number > static_cast<int64_t>(places->size()) ||
        (*places)[number - 1].bytes == 0) {
      return ChangedSinceIndexing(absl::StrCat(path, ":", number), "is gone");
    }
    place = (*places)[number - 1];
    fd = fd_.get();
  }
  return ReadRange(fd, path, place.offset, place.bytes);
}

absl::StatusOr<const UnpackedRecords::Places*> UnpackedRecords::Find(
    int64_t file, const std::string& path, TextLayout layout) {
  const auto found = files_.find(file);
  if (found != files_.end()) return &found->second;
  Places places;
  EVENSTEP_RETURN_IF_ERROR(Unpack(path, layout, &places));
  return &files_.emplace(file, std::move(places)).first->second;
}

absl::Status UnpackedRecords::Unpack(const std::string& path, TextLayout layout,
                                     Places* places) {
  if (!fd_.valid()) {
    EVENSTEP_ASSIGN_OR_RETURN(const int fd, OpenTemporary());
    fd_.Reset(fd);
  }
  const int fd = fd_.get();
  int64_t end = end_;
  absl::Status written;
  absl::Status scanned =
      ScanJsonRecords(path, layout, [&](const JsonLine& line) {
        if (!written.ok() || line.content.empty()) return;
        written = WriteAll(fd, line.content, end);
        places->resize(static_cast<size_t>(line.number));
        places->back() = {end, line.bytes};
        end += line.bytes;
      });
  end_ = end;
  // What stands after the last sound record, or after kMaxUnpackedBytes, was
  // reported while indexing.
  const bool reported =
      absl::IsInvalidArgument(scanned) ||
      (absl::IsResourceExhausted(scanned) && !places->empty());
  if (!scanned.ok() && !reported) return scanned;
  return written;
}

}  // namespace evenstep::data
