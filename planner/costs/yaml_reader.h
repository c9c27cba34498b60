#ifndef EVENSTEP_PLANNER_COSTS_YAML_READER_H_
#define EVENSTEP_PLANNER_COSTS_YAML_READER_H_

// Reads YAML maps by tables of known keys, with errors that name file, line and
// key. Used by cost_file.cc and published_costs.cc. A reader holds only the
// file's name; safe to share between threads. What keys point to must outlive
// the reading.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/parse_value.h"
#include "base/yaml.h"

namespace evenstep::planner {

enum class Presence { kRequired, kOptional };

// Sets what one key stands for.
struct YamlKey {
  std::string name;
  Presence presence;
  std::function<absl::Status(const YamlEntry&)> read;
};

class YamlReader {
 public:
  explicit YamlReader(absl::string_view file) : file_(file) {}

  absl::Status Error(int line, const std::string& sentence) const {
    return YamlError(file_, line, sentence);
  }

  template <typename T>
  YamlKey Value(std::string key, Presence presence, T* value) const {
    return {std::move(key), presence, [this, value](const YamlEntry& entry) {
              return ReadScalar(entry, [value](const std::string& text) {
                return ParseValue(text, value);
              });
            }};
  }
  static YamlKey Part(std::string key,
                      std::function<absl::Status(const YamlNode&)> read,
                      Presence presence = Presence::kRequired) {
    return {std::move(key), presence,
            [read = std::move(read)](const YamlEntry& entry) {
              return read(entry.value);
            }};
  }

  // Reads in the order of `keys`. `path` names the map in errors; "": the file.
  absl::Status ReadMap(const YamlNode& node, const std::string& path,
                       const std::vector<YamlKey>& keys) const;
  // That the node is a list, of which `size` entries were read.
  absl::Status ExpectList(const YamlNode& node, size_t size) const;

 private:
  absl::Status ReadScalar(
      const YamlEntry& entry,
      const std::function<absl::Status(const std::string&)>& parse) const;
  absl::Status CheckKnown(const YamlEntry& entry,
                          const std::vector<YamlKey>& keys) const;

  const std::string file_;
};

}  // namespace evenstep::planner

#endif  // EVENSTEP_PLANNER_COSTS_YAML_READER_H_
