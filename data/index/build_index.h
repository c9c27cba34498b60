#ifndef EVENSTEP_DATA_INDEX_BUILD_INDEX_H_
#define EVENSTEP_DATA_INDEX_BUILD_INDEX_H_

// Collects the documents of a source into a length index, whatever the job: its
// rules are applied when the index is opened (selection.h). Each kind of source
// walks its own files, reads what they hold, and adds what it finds. One
// thread.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/fnv1a.h"
#include "data/dataset.h"
#include "data/index/length_index.h"
#include "data/text/file_list.h"

namespace evenstep::data {

// Names what an index depends on: files with sizes and times, and the tokenizer
// (Tokenizer::key). Not the folder's path: a folder may be moved, or be mounted
// elsewhere.
uint64_t ListingKey(const FileList& list, uint64_t tokenizer_key);

class IndexBuilder {
 public:
  // `progress` may be empty. Its errors end the work: Finish returns them.
  explicit IndexBuilder(uint64_t tokenizer_key,
                        IndexProgressFunction progress = {});

  // Before the first document: bytes that Advance will count.
  void SetTotalBytes(int64_t bytes);
  int64_t bytes_done() const { return progress_.bytes_done; }
  // So many bytes more have been read.
  void Advance(int64_t bytes);
  // So many bytes more have been worked on that are not of the total: reports,
  // so that long work is seen to go on and can be ended.
  void Work(int64_t bytes);
  // `progress` failed: what is added from now on is not used.
  bool stopped() const { return !stopped_.ok(); }

  // Documents that follow are of this file.
  void AddFile(const ListedFile& file, int64_t kind = 0);
  // A document of the newest file; `row` has all but `file` and
  // `details_end`. An empty one is bad.
  void AddDocument(const std::string& name, const IndexedDocument& row,
                   absl::Span<const int64_t> details = {});
  // Named up to kMostNoteBytes.
  void AddBad(const std::string& name, absl::string_view reason);
  // The newest file is left out: JSON without records.
  void LeaveOutJson() {
    ++content_.header.num_json;
    content_.files.back().kind = kLeftOutJson;
  }
  // Where `text` is found in LengthIndex::names().
  int64_t AddName(absl::string_view text);
  // Bytes that the content key depends on beside the documents.
  void AddContent(absl::string_view bytes) { content_hash_.AddString(bytes); }
  void SetVariant(int64_t variant) { content_.header.variant = variant; }

  // The index's bytes.
  absl::StatusOr<std::string> Finish(uint64_t listing_key) &&;

 private:
  void Report();

  const IndexProgressFunction report_;
  IndexProgress progress_;
  int64_t unreported_bytes_ = 0;
  absl::Status stopped_;
  IndexContent content_;
  Fnv1a64 content_hash_;
};

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_INDEX_BUILD_INDEX_H_
