#ifndef EVENSTEP_DATA_TEXT_TEXT_FILE_H_
#define EVENSTEP_DATA_TEXT_TEXT_FILE_H_

// What a file of a `text:` source holds: prose, JSON records, other JSON, or no
// text at all. Text is UTF-8 without NUL bytes; a byte order mark of UTF-8 at
// its start is not part of it. docs/data.md has the rules for users. Used while
// indexing.
//
// Positions in reasons count bytes from 1, of the unpacked text.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/text/foreign_json.h"
#include "data/text/unpack.h"

namespace evenstep::data {

enum class TextLayout {
  kProse,   // one document
  kLines,   // a record a line
  kValues,  // an array of records, or records one after the other
  kJson,    // an object or array of something else, in a .json file
};

struct TextFile {
  Packing packing = Packing::kNone;
  TextLayout layout = TextLayout::kProse;
  int64_t mark_bytes = 0;  // of a byte order mark at the start
  std::string problem;     // why it is no text; empty: nothing known
};

inline constexpr absl::string_view kUtf8Mark = "\xef\xbb\xbf";
// The most that a compressed file may unpack to.
inline constexpr int64_t kMaxUnpackedBytes = int64_t{1} << 32;

// Reads the beginning of the file at `path`. `name` decides between lines
// (.jsonl, .ndjson) and prose; a .json file is read as records where the first
// one has a key that records have, and is no document where it has none.
TextFile LookAtFile(const std::string& path, absl::string_view name);

// How the JSON at `path` begins, unpacked. The status of reading it.
absl::StatusOr<JsonShape> ShapeOfFile(const std::string& path);

// By name alone, for a file that is known to hold records.
TextLayout RecordLayoutOf(absl::string_view name);

// What a file is that begins with `head` and is not read as text, with what to
// do about it; empty: it may be text. Looks for magic bytes, for UTF-16 and for
// NUL bytes.
std::string NotTextReason(absl::string_view head);

// The same for a text as a whole.
std::string CheckWholeText(absl::string_view text);

// Checks a text in blocks. One use.
class TextCheck {
 public:
  // `contiguous`: the blocks follow each other without gaps. Otherwise a
  // character that a block cuts is not looked at.
  explicit TextCheck(bool contiguous) : contiguous_(contiguous) {}
  void Add(absl::string_view block);
  // After the last block. Empty: it is text.
  std::string Finish();

 private:
  const bool contiguous_;
  int64_t offset_ = 0;  // of the next block
  std::string kept_;    // the start of a character
  std::string problem_;
};

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TEXT_TEXT_FILE_H_
