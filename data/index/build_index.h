#ifndef EVENSTEP_DATA_INDEX_BUILD_INDEX_H_
#define EVENSTEP_DATA_INDEX_BUILD_INDEX_H_

// Collects the documents of a source into a length index, and applies the job's
// rules for samples that are bad or too long. Each kind of source walks its own
// files and adds what it finds. One thread.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/fnv1a.h"
#include "data/dataset.h"
#include "data/index/length_index.h"
#include "data/text/file_list.h"
#include "data/text/text_document.h"

namespace evenstep::data {

// Names what an index depends on: files with sizes and times, settings, and the
// tokenizer (Tokenizer::key).
uint64_t ListingKey(const FileList& list, const DatasetOptions& options,
                    uint64_t tokenizer_key);

class IndexBuilder {
 public:
  // `options` outlives the builder.
  IndexBuilder(const DatasetOptions& options, uint64_t tokenizer_key);

  // Documents that follow are of this file.
  void AddFile(const ListedFile& file);
  // A document at `place` (number, offset, bytes) of the newest file; `size`
  // was measured with options.max_length. An empty one is bad.
  void AddDocument(const std::string& name, const IndexedDocument& place,
                   const DocumentSize& size);
  void AddBad(const std::string& name, absl::string_view reason);
  // Bytes that the content key depends on beside names and sizes.
  void AddContent(absl::string_view bytes) { content_hash_.AddString(bytes); }

  // The index's bytes. FAILED_PRECONDITION: a sample breaks a rule whose
  // setting is `fail` (the first are named, all are counted), or none is left.
  absl::StatusOr<std::string> Finish(uint64_t listing_key) &&;

 private:
  bool AddTooLong(const std::string& name, int64_t num_tokens);
  absl::Status CheckRules() const;

  const DatasetOptions& options_;
  IndexContent content_;
  Fnv1a64 content_hash_;
  std::vector<std::string> bad_;
  std::vector<std::string> too_long_;
};

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_INDEX_BUILD_INDEX_H_
