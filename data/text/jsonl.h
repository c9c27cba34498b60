#ifndef EVENSTEP_DATA_TEXT_JSONL_H_
#define EVENSTEP_DATA_TEXT_JSONL_H_

// JSON records of a file: one a line (JSON Lines), or in a list, or one after
// the other. Each holds a document in one of three forms. Read as a stream,
// unpacked where the file is compressed; never a whole file. Used while
// indexing and when a document is read. Stateless functions.
//
//   {"text": "..."}                         all of it is trained
//   {"messages": [{"role": "user", "content": "..."}, ...]}
//       Each message is "<|ROLE|>\n" and its content, which a newline ends. The
//       contents of role `assistant` are trained, each with an end token in the
//       newline's place; all else is masked.
//   {"prompt": "...", "completion": "..."}  the completion is trained, with an
//       end token; the prompt is masked. `response` means the same.
//
// The first of `text`, `messages` and `prompt` that is there and is not null
// counts; json_document.h says which other keys do.

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/text_document.h"
#include "data/text/text_file.h"

namespace evenstep::data {

inline constexpr int64_t kMaxJsonLineBytes = int64_t{1} << 28;

struct JsonLine {
  int64_t number = 0;  // of the line, or of the record in a list; from 1
  int64_t offset = 0;  // of its first byte in the unpacked file
  int64_t bytes = 0;   // without the line end
  // Empty when the record is longer than kMaxJsonLineBytes.
  absl::string_view content;
};

// The document of a record. INVALID_ARGUMENT with the reason, which names the
// byte in the record, from 1, where there is one to name.
absl::StatusOr<TextDocument> ParseJsonDocument(absl::string_view record);
absl::StatusOr<TextDocument> ParseJsonDocument(const JsonLine& line);

// Calls `visit` for each record of the file, in order; lines that are blank
// hold none. `layout` is kLines or kValues. A status of the file's own: it
// cannot be read or unpacked; of kValues, what stands between records is no
// JSON, and what follows is not looked at. `goes_on` may be empty; where it
// returns false the rest of the file is not read, and nothing that is returned
// says so.
absl::Status ScanJsonRecords(const std::string& path, TextLayout layout,
                             const std::function<void(const JsonLine&)>& visit,
                             const std::function<bool()>& goes_on = nullptr);

// The same of a text in one piece.
absl::Status CutJsonRecords(absl::string_view text, TextLayout layout,
                            const std::function<void(const JsonLine&)>& visit);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TEXT_JSONL_H_
