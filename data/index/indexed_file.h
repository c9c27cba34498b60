#ifndef EVENSTEP_DATA_INDEX_INDEXED_FILE_H_
#define EVENSTEP_DATA_INDEX_INDEXED_FILE_H_

// Reads parts of files: in order while they are indexed, and one document at a
// time when it is trained on, where its bytes are compared with those that were
// indexed. The content of a document decides, not the size or the time of its
// file: a file may be touched, or appended to, while a job runs. Shared by the
// kinds of source that read documents from files.

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"
#include "data/index/length_index.h"

namespace evenstep::data {

// DATA_LOSS: `what` (a file, or a document in it) changed since indexing.
absl::Status ChangedSinceIndexing(absl::string_view what,
                                  absl::string_view how);

// Bytes of an open file. DATA_LOSS when it ends early.
absl::StatusOr<std::string> ReadRange(int fd, const std::string& path,
                                      int64_t offset, int64_t bytes);

// Where a document is, for reading it.
struct DocumentPlace {
  std::string path;
  std::string name;  // of the document, for messages
  const IndexedFile& file;
  const IndexedDocument& document;
};

// The first `bytes` of a document, all of them at most. DATA_LOSS naming the
// document when its bytes are not those that were indexed. If all are read,
// they are compared. If fewer are read, the rest is only compared where the
// file's size or time has changed.
absl::StatusOr<std::string> ReadIndexedDocument(const DocumentPlace& place,
                                                int64_t bytes);
// DATA_LOSS unless `content`, a whole document, is what was indexed as `row`.
// For sources that do not read documents as they are on disk.
absl::Status CheckContent(absl::string_view content, absl::string_view name,
                          const IndexedDocument& row);

// INVALID_ARGUMENT when `document` is not in [0, num_documents).
absl::Status CheckDocument(int64_t document, int64_t num_documents);

// Reads ranges of a file, mostly in ascending order, through a buffer. Used
// while indexing, by one thread.
class RangeReader {
 public:
  static constexpr int64_t kMostBytes = int64_t{1} << 20;

  static absl::StatusOr<RangeReader> Open(const std::string& path);

  // At most kMostBytes. The view is good until the next call. DATA_LOSS when
  // the file ends early.
  absl::StatusOr<absl::string_view> Read(int64_t offset, int64_t bytes);

 private:
  RangeReader(std::string path, UniqueFd fd, int64_t file_bytes)
      : path_(std::move(path)), fd_(std::move(fd)), file_bytes_(file_bytes) {}

  std::string path_;
  UniqueFd fd_;
  int64_t file_bytes_;  // when it was opened: more is not read ahead
  std::string buffer_;
  int64_t begin_ = 0;  // of the buffer in the file
  int64_t size_ = 0;   // bytes in the buffer
};

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_INDEX_INDEXED_FILE_H_
