#ifndef EVENSTEP_DATA_INDEX_SELECTION_H_
#define EVENSTEP_DATA_INDEX_SELECTION_H_

// The samples that one job makes of a length index: its rules for documents
// that are bad or too long, applied to true lengths and to what indexing noted
// of contents. Made when a data set is opened, without reading it again.
// Immutable, so safe to share between threads.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/dataset.h"
#include "data/index/length_index.h"

namespace evenstep::data {

// What a kind of source says of a row under a job's settings.
struct JudgedDocument {
  std::string problem;     // why this job cannot use it; empty: it can
  int64_t num_tokens = 0;  // all of it
  // Of a document longer than max_length under `truncate`.
  int64_t truncated_tokens = 0;
};

class Selection {
 public:
  struct Source {
    // Whether rows are such as the source writes; may be empty.
    std::function<absl::Status(const LengthIndex&)> check = {};
    // For messages.
    std::function<std::string(const LengthIndex&, int64_t row)> name;
    std::function<JudgedDocument(const LengthIndex&, int64_t row)> judge;
    // Documents are in each file that can be read.
    bool all_files_hold_documents = true;
  };

  // `listed` is what the listing left out, which no index has.
  // FAILED_PRECONDITION: a sample breaks a rule whose setting is `fail`, with
  // the first names; or none is left.
  static absl::StatusOr<Selection> Make(LengthIndex index,
                                        const DatasetOptions& options,
                                        const Source& source,
                                        const LeftOut& listed = {});

  const LengthIndex& index() const { return index_; }
  const DatasetSummary& summary() const { return summary_; }
  int64_t num_samples() const { return summary_.num_samples; }
  // The row of a sample in [0, num_samples()).
  int64_t row(int64_t sample) const {
    return rows_.empty() ? sample : rows_[sample];
  }
  const IndexedDocument& document(int64_t sample) const {
    return index_.document(row(sample));
  }
  // Of text.
  int64_t Length(int64_t sample) const {
    return std::min(document(sample).num_tokens, max_length_);
  }
  int64_t TrainedTokens(int64_t sample) const {
    return index_.TrainedTokens(row(sample), Length(sample));
  }
  // Dataset::BadSamples.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Selection(LengthIndex index, int64_t max_length)
      : index_(std::move(index)), max_length_(max_length) {}

  LengthIndex index_;
  int64_t max_length_;
  DatasetSummary summary_;
  std::vector<int64_t> rows_;  // empty: all of them
  std::vector<std::string> notes_;
};

// Judges documents of tokens by their true length, and by their largest token,
// which is below `vocab`; 0: any is.
std::function<JudgedDocument(const LengthIndex&, int64_t row)> JudgeTokens(
    const DatasetOptions& options, int64_t vocab);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_INDEX_SELECTION_H_
