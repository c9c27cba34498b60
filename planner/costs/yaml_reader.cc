#include "planner/costs/yaml_reader.h"

#include <algorithm>

#include "base/status_macros.h"
#include "base/text.h"

namespace evenstep::planner {

absl::Status YamlReader::ReadScalar(
    const YamlEntry& entry,
    const std::function<absl::Status(const std::string&)>& parse) const {
  if (entry.value.kind != YamlNode::Kind::kScalar) {
    return Error(entry.line, absl::StrCat(entry.key, ": expected one value"));
  }
  absl::Status status = parse(entry.value.scalar);
  if (status.ok()) return status;
  return Error(entry.line, absl::StrCat(entry.key, ": ", status.message()));
}

absl::Status YamlReader::ReadMap(const YamlNode& node, const std::string& path,
                                 const std::vector<YamlKey>& keys) const {
  const std::string where = path.empty() ? "" : absl::StrCat(path, ": ");
  if (node.kind != YamlNode::Kind::kMap) {
    return Error(node.line, absl::StrCat(where, "expected 'key: value' lines"));
  }
  for (const YamlEntry& entry : node.entries) {
    EVENSTEP_RETURN_IF_ERROR(CheckKnown(entry, keys));
  }
  for (const YamlKey& key : keys) {
    const auto found = std::find_if(
        node.entries.begin(), node.entries.end(),
        [&](const YamlEntry& entry) { return entry.key == key.name; });
    if (found != node.entries.end()) {
      EVENSTEP_RETURN_IF_ERROR(key.read(*found));
    } else if (key.presence == Presence::kRequired) {
      return Error(node.line, absl::StrCat(where, key.name, " is missing"));
    }
  }
  return absl::OkStatus();
}

absl::Status YamlReader::CheckKnown(const YamlEntry& entry,
                                    const std::vector<YamlKey>& keys) const {
  std::vector<std::string> names;
  for (const YamlKey& key : keys) {
    if (key.name == entry.key) return absl::OkStatus();
    names.push_back(key.name);
  }
  return Error(entry.line, absl::StrCat("unknown key '", entry.key, "'",
                                        KnownNamesHint(entry.key, names)));
}

absl::Status YamlReader::ExpectList(const YamlNode& node, size_t size) const {
  if (node.kind == YamlNode::Kind::kList && size > 0) return absl::OkStatus();
  return Error(node.line, "expected a list of one entry or more");
}

}  // namespace evenstep::planner
