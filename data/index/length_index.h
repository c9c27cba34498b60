#ifndef EVENSTEP_DATA_INDEX_LENGTH_INDEX_H_
#define EVENSTEP_DATA_INDEX_LENGTH_INDEX_H_

// The length index of a data set: one row per document, one per file, and what
// was bad. It describes the data and nothing of a job: lengths are true
// lengths, and each row has what a job's rules need to judge the document
// without reading it (data/index/selection.h). Written by build_index.h, kept
// by index_cache.h. Immutable once opened, so safe to share between threads.
//
// Bytes, version 4, all integers little-endian and 8 bytes unless said
// otherwise: IndexHeader, then num_documents IndexedDocument rows, then
// num_files IndexedFile rows, then num_details int64 details, then the names
// (of files, and of clips) one after the other, then notes on bad documents,
// each ended by a newline. The details of document i are those from
// details_end of document i - 1 up to its own. header.checksum is XXH3 (64
// bits) over everything else. A file that breaks any of this is refused.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace evenstep::data {

static_assert(std::endian::native == std::endian::little,
              "rows in memory are the bytes on disk");

struct IndexedDocument {
  int32_t file = 0;  // row of its file
  // Largest token id (4 bytes, as `file`); -1: all are in the vocabulary of
  // the source, or it has no tokens.
  int32_t largest_token = -1;
  int64_t largest_token_at = 0;  // position of the first such token
  int64_t number = 0;            // in its file, from 1; 0: it is the whole file
  int64_t offset = 0;            // of its bytes in the file
  int64_t bytes = 0;             // its bytes in the file
  int64_t num_tokens = 0;        // of clips: values of one channel
  int64_t num_trained = 0;       // tokens that have a loss
  uint64_t hash = 0;             // of its bytes, as HashedBytes says
  int64_t details_end = 0;
};

// No sample is longer than this many bytes of text, so what follows in a file
// that is one document is never trained on.
inline constexpr int64_t kHashedBytes = int64_t{1} << 28;

// How many of a document's first bytes its hash is of.
inline int64_t HashedBytes(const IndexedDocument& document) {
  return document.number == 0 ? std::min(document.bytes, kHashedBytes)
                              : document.bytes;
}

// IndexedFile::kind of JSON without records, which is left out.
inline constexpr int64_t kLeftOutJson = -1;

struct IndexedFile {
  int64_t name_offset = 0;
  int64_t name_bytes = 0;
  int64_t bytes = 0;
  int64_t mtime_ns = 0;
  int64_t kind = 0;  // the source's own: how documents are read from it
};

struct IndexHeader {
  char magic[8] = {'E', 'V', 'N', 'I', 'D', 'X', '0', '4'};
  uint64_t listing_key = 0;  // of the files and the tokenizer it was made from
  uint64_t content_key = 0;  // of what they hold
  int64_t num_documents = 0;
  int64_t num_files = 0;
  int64_t num_details = 0;
  int64_t names_bytes = 0;
  int64_t notes_bytes = 0;
  int64_t num_bad = 0;
  int64_t variant = 0;   // of Megatron's files: MegatronType
  int64_t num_json = 0;  // of text: LeftOut::json
  uint64_t checksum = 0;
};

// What an index is written from.
struct IndexContent {
  IndexHeader header;  // sizes are filled in by SerializeIndex
  std::vector<IndexedDocument> documents;
  std::vector<IndexedFile> files;
  std::vector<int64_t> details;
  std::string names;
  std::string notes;
};
std::string SerializeIndex(IndexContent content);

// Whether `path` is an index of an earlier version, which is never read again.
bool IsEarlierIndex(const std::string& path);

// How many of the first `length` tokens are in `runs`, pairs of begin and end.
int64_t TokensInRuns(absl::Span<const int64_t> runs, int64_t length);

class LengthIndex {
 public:
  // DATA_LOSS with the reason when the bytes are no sound index;
  // FAILED_PRECONDITION when they are one of another version.
  static absl::StatusOr<LengthIndex> FromBytes(std::string bytes);
  // The same for a file, which is read into memory: whatever happens to it
  // afterwards, the index stays as it was. Or the status of reading it.
  static absl::StatusOr<LengthIndex> Read(const std::string& path);

  const IndexHeader& header() const { return *header_; }
  int64_t num_documents() const { return header_->num_documents; }
  const IndexedDocument& document(int64_t index) const {
    return documents_[index];
  }
  // Numbers whose meaning is the source's: of text that is masked in part, the
  // begin and the end of each run of trained tokens, ascending; of clips, see
  // data/latents/clip_index.h.
  absl::Span<const int64_t> details(int64_t document) const {
    const int64_t begin =
        document == 0 ? 0 : documents_[document - 1].details_end;
    return {details_ + begin,
            static_cast<size_t>(documents_[document].details_end - begin)};
  }
  // How many of the first `length` tokens of a document of text have a loss.
  int64_t TrainedTokens(int64_t document, int64_t length) const;
  const IndexedFile& file(int64_t index) const { return files_[index]; }
  absl::string_view file_name(int64_t index) const {
    return names_.substr(files_[index].name_offset, files_[index].name_bytes);
  }
  absl::string_view names() const { return names_; }
  absl::string_view notes() const { return notes_; }

 private:
  LengthIndex() = default;
  absl::Status Open(absl::string_view bytes);
  absl::Status CheckRows() const;
  absl::Status CheckDocuments() const;

  std::shared_ptr<const std::string> owner_;  // of what all else points into
  const IndexHeader* header_ = nullptr;
  const IndexedDocument* documents_ = nullptr;
  const IndexedFile* files_ = nullptr;
  const int64_t* details_ = nullptr;
  absl::string_view names_;
  absl::string_view notes_;
};

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_INDEX_LENGTH_INDEX_H_
