#ifndef EVENSTEP_DATA_TEXT_TEXT_DATASET_H_
#define EVENSTEP_DATA_TEXT_TEXT_DATASET_H_

// `text:PATH`: a folder, a pattern or one file (file_list.h). Each file is one
// document, holds JSON records, or is bad (text_file.h, jsonl.h). Tokens are
// bytes, or the pieces of a SentencePiece model. Called by source_kind.h.

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/dataset.h"

namespace evenstep::data {

// As OpenDataset.
absl::StatusOr<std::unique_ptr<Dataset>> OpenTextDataset(
    const DatasetOptions& options, absl::string_view path);
// NOT_FOUND: no such path, or no file there.
absl::Status LookForText(absl::string_view path);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TEXT_TEXT_DATASET_H_
