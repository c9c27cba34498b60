#ifndef EVENSTEP_DATA_TEXT_JSONL_H_
#define EVENSTEP_DATA_TEXT_JSONL_H_

// JSON Lines: one object a line, which holds a document in one of three forms.
// Read line by line; never a whole file. Used while indexing and when a
// document is read. Stateless functions; the scanner is used by one thread.
//
//   {"text": "..."}                         all of it is trained
//   {"messages": [{"role": "user", "content": "..."}, ...]}
//       Each message is "<|ROLE|>\n" and its content, which a newline ends. The
//       contents of role `assistant` are trained, each with an end token in the
//       newline's place; all else is masked.
//   {"prompt": "...", "completion": "..."}  the completion is trained, with an
//       end token; the prompt is masked. `response` means the same.
//
// The first of `text`, `messages` and `prompt` that is there counts; other
// fields do not.

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/text_document.h"

namespace evenstep::data {

inline constexpr int64_t kMaxJsonLineBytes = int64_t{1} << 28;

struct JsonLine {
  int64_t number = 0;  // from 1
  int64_t offset = 0;  // of its first byte in the file
  int64_t bytes = 0;   // without the line end
  // Empty when the line is longer than kMaxJsonLineBytes.
  absl::string_view content;
};

// The document of a line. INVALID_ARGUMENT with the reason: not JSON, not an
// object, no document in it, an empty one, or a line of more than
// kMaxJsonLineBytes.
absl::StatusOr<TextDocument> ParseJsonDocument(absl::string_view line);

// Calls `visit` for each line of the file that is not blank, in order. A
// status of the file's own: it cannot be opened or read.
absl::Status ScanJsonLines(const std::string& path,
                           const std::function<void(const JsonLine&)>& visit);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TEXT_JSONL_H_
