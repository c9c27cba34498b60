#ifndef EVENSTEP_DATA_TEXT_FOREIGN_JSON_H_
#define EVENSTEP_DATA_TEXT_FOREIGN_JSON_H_

// JSON whose records are not those of json_document.h: what it holds, and what
// to rename or to cut out so that it can be trained on. For messages, and to
// tell files of records from settings. Pure functions.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace evenstep::data {

// How a JSON text begins.
struct JsonShape {
  bool is_list = false;  // the outermost value
  std::string element;   // of a list without objects: "strings", "numbers"
  std::vector<std::string> keys;  // of the first object, which may be in a list
  // The first of those keys that holds a list of objects, and the keys of the
  // first one there.
  std::string list;
  std::vector<std::string> list_keys;
};

// `head` may end anywhere; what follows is not known then.
JsonShape ShapeOfJson(absl::string_view head);
// Whether the first object has a key that records have.
bool HoldsRecords(const JsonShape& shape);
// Whether it is a data set in a form that is not read, not settings.
bool HoldsForeignRecords(const JsonShape& shape);

// "rename `question` to `prompt` and `answer` to `completion`", by the record's
// own keys; empty: nothing is known of such records.
std::string HowToRename(absl::Span<const std::string> keys);

// Why a file of this shape is left out, and what to do: "JSON without records:
// ...".
std::string WhyNoRecords(const JsonShape& shape);

// "`a`, `b`, ...": the first few.
std::string QuotedKeys(absl::Span<const std::string> keys);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TEXT_FOREIGN_JSON_H_
