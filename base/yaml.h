#ifndef EVENSTEP_BASE_YAML_H_
#define EVENSTEP_BASE_YAML_H_

// YAML files as a plain tree with line numbers: the one place that touches
// yaml-cpp and its exceptions. Stricter than YAML: one document, keys are
// unique scalars, no anchors or aliases (so no file can grow when read), at
// most 64 levels and 1 MiB. Pure functions; plain data.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace evenstep {

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  int line = 1;
  std::string scalar;              // kScalar
  std::vector<YamlNode> items;     // kList
  std::vector<YamlEntry> entries;  // kMap, in the order of the file
};

struct YamlEntry {
  std::string key;
  int line = 1;
  YamlNode value;
};

// INVALID_ARGUMENT with "NAME:LINE: sentence", or with what the file is if it
// is of another format (base/foreign_file.h). An empty file is kNull.
absl::StatusOr<YamlNode> ParseYaml(absl::string_view text,
                                   absl::string_view name);

// INVALID_ARGUMENT with "NAME:LINE: sentence".
absl::Status YamlError(absl::string_view name, int line,
                       absl::string_view sentence);

// `text` as a scalar that ParseYaml reads back to the same string.
std::string YamlScalar(absl::string_view text);

}  // namespace evenstep

#endif  // EVENSTEP_BASE_YAML_H_
