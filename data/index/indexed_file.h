#ifndef EVENSTEP_DATA_INDEX_INDEXED_FILE_H_
#define EVENSTEP_DATA_INDEX_INDEXED_FILE_H_

// Reads parts of a file that an index describes, and notices when it is no
// longer the file that was indexed. Shared by the kinds of source that read
// documents from files. Stateless.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/index/length_index.h"

namespace evenstep::data {

// DATA_LOSS: what is at `path` changed since it was indexed.
absl::Status ChangedSinceIndexing(absl::string_view path,
                                  absl::string_view how);

// Bytes of an open file. DATA_LOSS when it ends early.
absl::StatusOr<std::string> ReadRange(int fd, const std::string& path,
                                      int64_t offset, int64_t bytes);

// DATA_LOSS when the file's size, time or kind is not that of its row, or when
// it ends early.
absl::StatusOr<std::string> ReadIndexedBytes(const std::string& path,
                                             const IndexedFile& file,
                                             int64_t offset, int64_t bytes);

// INVALID_ARGUMENT when `document` is not in [0, num_documents).
absl::Status CheckDocument(int64_t document, int64_t num_documents);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_INDEX_INDEXED_FILE_H_
