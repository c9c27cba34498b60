#include "data/index/indexed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "data/index/content_hash.h"

namespace evenstep::data {
namespace {

UniqueFd OpenForReading(const std::string& path) {
  // O_NONBLOCK: a pipe must not make the caller wait for a writer.
  return UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

// As many bytes as there are, up to `bytes`.
absl::StatusOr<int64_t> ReadUpTo(int fd, const std::string& path,
                                 int64_t offset, int64_t bytes, char* into) {
  int64_t got = 0;
  while (got < bytes) {
    const ssize_t n =
        pread(fd, into + got, bytes - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "cannot read", path);
    if (n == 0) break;
    got += n;
  }
  return got;
}

bool LooksAsIndexed(const struct stat& info, const IndexedFile& file) {
  const int64_t mtime_ns =
      int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  return info.st_size == file.bytes && mtime_ns == file.mtime_ns;
}

absl::Status CheckHash(uint64_t hash, absl::string_view name,
                       const IndexedDocument& row) {
  if (hash == row.hash) return absl::OkStatus();
  return ChangedSinceIndexing(name, "changed");
}

// All that is hashed of a document, in blocks.
absl::Status CheckOnDisk(int fd, const DocumentPlace& place) {
  const IndexedDocument& row = place.document;
  const int64_t end = row.offset + HashedBytes(row);
  ContentHasher hasher;
  for (int64_t at = row.offset; at < end; at += RangeReader::kMostBytes) {
    EVENSTEP_ASSIGN_OR_RETURN(
        const std::string block,
        ReadRange(fd, place.path, at,
                  std::min(RangeReader::kMostBytes, end - at)));
    hasher.Add(block);
  }
  return CheckHash(hasher.value(), place.name, row);
}

}  // namespace

absl::Status ChangedSinceIndexing(absl::string_view what,
                                  absl::string_view how) {
  return absl::DataLossError(absl::StrCat(
      what, " ", how, " since it was indexed; start the job again"));
}

absl::StatusOr<std::string> ReadRange(int fd, const std::string& path,
                                      int64_t offset, int64_t bytes) {
  std::string content(static_cast<size_t>(bytes), '\0');
  EVENSTEP_ASSIGN_OR_RETURN(const int64_t got,
                            ReadUpTo(fd, path, offset, bytes, content.data()));
  if (got < bytes) return ChangedSinceIndexing(path, "became shorter");
  return content;
}

absl::StatusOr<std::string> ReadIndexedDocument(const DocumentPlace& place,
                                                int64_t bytes) {
  const UniqueFd fd = OpenForReading(place.path);
  if (!fd.valid()) {
    return ChangedSinceIndexing(
        place.name, absl::StrCat("cannot be opened (", strerror(errno), ")"));
  }
  struct stat info;
  if (fstat(fd.get(), &info) != 0) {
    return ErrnoStatus(errno, "cannot stat", place.path);
  }
  if (!S_ISREG(info.st_mode)) {
    return ChangedSinceIndexing(place.name, "is no longer in a regular file");
  }
  const IndexedDocument& row = place.document;
  if (row.offset + bytes > info.st_size) {
    return ChangedSinceIndexing(
        place.name,
        absl::StrCat("was cut: its file went from ", place.file.bytes, " to ",
                     info.st_size, " bytes"));
  }
  EVENSTEP_ASSIGN_OR_RETURN(std::string content,
                            ReadRange(fd.get(), place.path, row.offset, bytes));
  if (bytes == row.bytes) {
    EVENSTEP_RETURN_IF_ERROR(CheckContent(content, place.name, row));
  } else if (!LooksAsIndexed(info, place.file)) {
    EVENSTEP_RETURN_IF_ERROR(CheckOnDisk(fd.get(), place));
  }
  return content;
}

absl::Status CheckContent(absl::string_view content, absl::string_view name,
                          const IndexedDocument& row) {
  return CheckHash(HashContent(content.substr(0, HashedBytes(row))), name, row);
}

absl::Status CheckDocument(int64_t document, int64_t num_documents) {
  if (document >= 0 && document < num_documents) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("document ", document, " of ", num_documents));
}

absl::StatusOr<RangeReader> RangeReader::Open(const std::string& path) {
  UniqueFd fd = OpenForReading(path);
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open", path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0)
    return ErrnoStatus(errno, "cannot stat", path);
  return RangeReader(path, std::move(fd), info.st_size);
}

absl::StatusOr<absl::string_view> RangeReader::Read(int64_t offset,
                                                    int64_t bytes) {
  if (offset < begin_ || offset + bytes > begin_ + size_) {
    const int64_t ahead =
        std::clamp(file_bytes_ - offset, bytes, std::max(bytes, kMostBytes));
    if (static_cast<int64_t>(buffer_.size()) < ahead) buffer_.resize(ahead);
    begin_ = offset;
    size_ = 0;
    EVENSTEP_ASSIGN_OR_RETURN(
        size_, ReadUpTo(fd_.get(), path_, offset, ahead, buffer_.data()));
  }
  if (offset + bytes > begin_ + size_) {
    return ChangedSinceIndexing(path_, "became shorter");
  }
  return absl::string_view(buffer_).substr(offset - begin_, bytes);
}

}  // namespace evenstep::data
