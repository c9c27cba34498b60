#ifndef EVENSTEP_DATA_INDEX_LENGTH_INDEX_H_
#define EVENSTEP_DATA_INDEX_LENGTH_INDEX_H_

// The length index of a data set: one row a document, one a file, and the
// counts. The same bytes serve in memory, on disk and memory-mapped. Written by
// BuildIndex, kept by index_cache.h, read by the data set. Immutable once
// opened, so safe to share between threads.
//
// Bytes, version 2, all integers little-endian and 8 bytes unless said
// otherwise: IndexHeader, then num_documents IndexedDocument rows, then
// num_files IndexedFile rows, then the names of the files one after the other,
// then notes on bad documents, each ended by a newline. header.checksum is
// FNV-1a over everything else. A file that breaks any of this is refused.

#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/dataset.h"

namespace evenstep::data {

static_assert(std::endian::native == std::endian::little,
              "the index is mapped as it stands on disk");

struct IndexedDocument {
  int64_t file = 0;         // row of its file
  int64_t number = 0;       // in its file, from 1; 0: it is the whole file
  int64_t offset = 0;       // of its bytes in the file
  int64_t bytes = 0;        // its bytes in the file
  int64_t num_tokens = 0;   // before truncation
  int64_t length = 0;       // tokens, after truncation
  int64_t num_trained = 0;  // of these, those that have a loss
};

struct IndexedFile {
  int64_t name_offset = 0;
  int64_t name_bytes = 0;
  int64_t bytes = 0;
  int64_t mtime_ns = 0;
};

struct IndexHeader {
  char magic[8] = {'E', 'V', 'N', 'I', 'D', 'X', '0', '2'};
  uint64_t listing_key = 0;  // of the files and settings it was made from
  uint64_t content_key = 0;  // DatasetSummary::content_key
  int64_t num_documents = 0;
  int64_t num_files = 0;
  int64_t names_bytes = 0;
  int64_t notes_bytes = 0;
  int64_t num_too_long = 0;
  int64_t num_bad = 0;
  int64_t num_truncated = 0;
  int64_t longest = 0;
  int64_t total_tokens = 0;
  uint64_t checksum = 0;
};

// What an index is written from.
struct IndexContent {
  IndexHeader header;  // counts and sizes are filled in by SerializeIndex
  std::vector<IndexedDocument> documents;
  std::vector<IndexedFile> files;
  std::string names;
  std::string notes;
};
std::string SerializeIndex(IndexContent content);

class LengthIndex {
 public:
  // DATA_LOSS with the reason when the bytes are no sound index.
  static absl::StatusOr<LengthIndex> FromBytes(std::string bytes);
  // The same for a memory-mapped file; or the status of opening it.
  static absl::StatusOr<LengthIndex> Map(const std::string& path);

  const IndexHeader& header() const { return *header_; }
  DatasetSummary summary() const;
  const IndexedDocument& document(int64_t index) const {
    return documents_[index];
  }
  const IndexedFile& file(int64_t index) const { return files_[index]; }
  absl::string_view file_name(int64_t index) const {
    return names_.substr(files_[index].name_offset, files_[index].name_bytes);
  }
  absl::string_view notes() const { return notes_; }

 private:
  LengthIndex() = default;
  absl::Status Open(absl::string_view bytes);
  absl::Status CheckRows() const;
  bool IsSound(const IndexedDocument& document) const;

  std::shared_ptr<const void> owner_;  // of the bytes that all else points into
  const IndexHeader* header_ = nullptr;
  const IndexedDocument* documents_ = nullptr;
  const IndexedFile* files_ = nullptr;
  absl::string_view names_;
  absl::string_view notes_;
};

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_INDEX_LENGTH_INDEX_H_
