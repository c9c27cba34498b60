#include "base/atomic_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace evenstep {

absl::Status ErrnoStatus(int error, absl::string_view what,
                         absl::string_view path) {
  return absl::ErrnoToStatus(error, absl::StrCat(what, " ", path));
}

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::string_view content) {
  EVENSTEP_ASSIGN_OR_RETURN(AtomicFileWriter writer,
                            AtomicFileWriter::Open(path));
  EVENSTEP_RETURN_IF_ERROR(writer.Append(content));
  return writer.Commit();
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                          int64_t max_bytes) {
  // O_NONBLOCK: a pipe must not make the caller wait for a writer.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open", path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) {
    return ErrnoStatus(errno, "cannot stat", path);
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not a regular file"));
  }
  std::string content;
  char buffer[1 << 16];
  while (true) {
    const ssize_t got = read(fd.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "cannot read", path);
    if (got == 0) return content;
    content.append(buffer, static_cast<size_t>(got));
    if (static_cast<int64_t>(content.size()) > max_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, " is larger than ", max_bytes, " bytes"));
    }
  }
}

absl::Status MakeFolders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return ErrnoStatus(error.value(), "cannot create", path);
  return absl::OkStatus();
}

namespace {

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

absl::Status SyncFolder(const std::string& folder) {
  const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open", folder);
  // Some file systems cannot sync a folder and say EINVAL.
  if (fsync(fd.get()) != 0 && errno != EINVAL) {
    return ErrnoStatus(errno, "cannot fsync", folder);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AtomicFileWriter> AtomicFileWriter::Open(
    const std::string& path) {
  std::string temporary = absl::StrCat(path, ".tmp.XXXXXX");
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "cannot create", temporary);
  AtomicFileWriter writer(path, temporary, fd);
  // mkostemp makes files for the owner only; a file is as readable as usual.
  if (fchmod(fd, 0644) != 0) return ErrnoStatus(errno, "cannot chmod", path);
  return writer;
}

AtomicFileWriter::AtomicFileWriter(const std::string& path,
                                   const std::string& temporary, int fd)
    : path_(path), temporary_(temporary), fd_(fd) {}

AtomicFileWriter::AtomicFileWriter(AtomicFileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, std::string())),
      fd_(std::move(other.fd_)) {}

AtomicFileWriter::~AtomicFileWriter() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status AtomicFileWriter::Append(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "cannot write", temporary_);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AtomicFileWriter::Sync() {
  if (fsync(fd_.get()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "cannot fsync", temporary_);
}

absl::Status AtomicFileWriter::Commit() {
  EVENSTEP_RETURN_IF_ERROR(Sync());
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, "cannot rename to", path_);
  }
  temporary_.clear();
  return SyncFolder(FolderOf(path_));
}

}  // namespace evenstep
