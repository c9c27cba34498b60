#ifndef EVENSTEP_DATA_TEXT_JSON_DOCUMENT_H_
#define EVENSTEP_DATA_TEXT_JSON_DOCUMENT_H_

// A JSON record as a document. What of it is trained, and which keys are
// honoured, refused or ignored, is in docs/data.md: a key that says what is
// trained, or that stands for a part of the context, is never ignored. A key
// whose value is null, or an empty list, object or string, counts as absent
// where it would be refused otherwise. Pure function; used by jsonl.h.

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "data/text/text_document.h"

namespace evenstep::data {

// `record` is an object, which is used up. INVALID_ARGUMENT with the reason.
absl::StatusOr<TextDocument> DocumentOfRecord(nlohmann::json* record);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TEXT_JSON_DOCUMENT_H_
