#include "data/index/indexed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"

namespace evenstep::data {
namespace {

absl::Status CheckUnchanged(int fd, const std::string& path,
                            const IndexedFile& file) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "cannot stat", path);
  const int64_t mtime_ns =
      int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  if (!S_ISREG(info.st_mode))
    return ChangedSinceIndexing(path, "became another thing");
  if (info.st_size != file.bytes) {
    return ChangedSinceIndexing(
        path,
        absl::StrCat("went from ", file.bytes, " to ", info.st_size, " bytes"));
  }
  if (mtime_ns != file.mtime_ns)
    return ChangedSinceIndexing(path, "was written");
  return absl::OkStatus();
}

}  // namespace

absl::Status ChangedSinceIndexing(absl::string_view path,
                                  absl::string_view how) {
  return absl::DataLossError(absl::StrCat(
      path, " ", how, " since it was indexed; start the job again"));
}

absl::StatusOr<std::string> ReadRange(int fd, const std::string& path,
                                      int64_t offset, int64_t bytes) {
  std::string content(static_cast<size_t>(bytes), '\0');
  size_t got = 0;
  while (got < content.size()) {
    const ssize_t n = pread(fd, content.data() + got, content.size() - got,
                            static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "cannot read", path);
    if (n == 0) return ChangedSinceIndexing(path, "became shorter");
    got += static_cast<size_t>(n);
  }
  return content;
}

absl::StatusOr<std::string> ReadIndexedBytes(const std::string& path,
                                             const IndexedFile& file,
                                             int64_t offset, int64_t bytes) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    return ChangedSinceIndexing(
        path, absl::StrCat("cannot be opened (", std::strerror(errno), ")"));
  }
  EVENSTEP_RETURN_IF_ERROR(CheckUnchanged(fd.get(), path, file));
  return ReadRange(fd.get(), path, offset, bytes);
}

absl::Status CheckDocument(int64_t document, int64_t num_documents) {
  if (document >= 0 && document < num_documents) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("document ", document, " of ", num_documents));
}

}  // namespace evenstep::data
