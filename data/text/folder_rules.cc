#include "data/text/folder_rules.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"

namespace evenstep::data {
namespace {

// Beside a config.json, each of these says that a folder holds a model.
constexpr absl::string_view kModelSigns[] = {"tokenizer.json",
                                             "tokenizer.model",
                                             "vocab.txt",
                                             "model.safetensors",
                                             "model.safetensors.index.json",
                                             "pytorch_model.bin"};
constexpr absl::string_view kModelNames[] = {"config.json",
                                             "generation_config.json",
                                             "tokenizer.json",
                                             "tokenizer_config.json",
                                             "tokenizer.model",
                                             "special_tokens_map.json",
                                             "added_tokens.json",
                                             "vocab.json",
                                             "merges.txt",
                                             "preprocessor_config.json",
                                             "processor_config.json",
                                             "chat_template.jinja",
                                             "chat_template.json",
                                             "vocab.txt"};
// Code that a model is loaded with: modeling_x.py.
constexpr absl::string_view kModelCode[] = {"modeling_", "configuration_",
                                            "tokenization_", "processing_"};

// What describes a data set of the Hugging Face hub, and holds none of it.
constexpr absl::string_view kDataSetNames[] = {
    "dataset_info.json", "dataset_infos.json", "dataset_dict.json"};

template <typename List>
bool Contains(const List& list, absl::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

bool IsModelFile(absl::string_view name) {
  return Contains(kModelNames, name) || absl::EndsWith(name, ".safetensors") ||
         absl::EndsWith(name, ".safetensors.index.json") ||
         absl::StartsWith(name, "pytorch_model") ||
         (absl::EndsWith(name, ".py") &&
          std::any_of(std::begin(kModelCode), std::end(kModelCode),
                      [name](absl::string_view start) {
                        return absl::StartsWith(name, start);
                      }));
}

}  // namespace

FolderRules::FolderRules(const std::string& path,
                         const std::vector<std::string>& names)
    : names_(names.begin(), names.end()) {
  if (Has(kOutputMarkerName)) own_ = ReadOutputMarks(path);
  // Results of a version that left no marker, or copied without it.
  if (Has("loss.csv") && Has("loss.json") && Has("summary.json") &&
      Has("job.yaml")) {
    own_.names.insert(std::begin(kResultNames), std::end(kResultNames));
  }
  is_tool_folder_ = Has("CACHEDIR.TAG") || Has("pyvenv.cfg");
  is_model_ = Has("config.json") &&
              std::any_of(std::begin(kModelSigns), std::end(kModelSigns),
                          [this](absl::string_view sign) { return Has(sign); });
  is_saved_data_set_ = Has("dataset_info.json");
  is_hub_cache_ = Has("blobs") && Has("refs") && Has("snapshots");
}

EntryRule FolderRules::Judge(absl::string_view name) const {
  if (absl::StartsWith(name, kOwnFilePrefix)) return EntryRule::kBookkeeping;
  if (own_.Has(name)) return EntryRule::kOwn;
  if (absl::StartsWith(name, ".")) return EntryRule::kHidden;
  if (IsToolFolderName(name)) return EntryRule::kTools;
  if (IsBackupName(name)) return EntryRule::kTools;
  if (is_model_ && IsModelFile(name)) return EntryRule::kTools;
  if (Contains(kDataSetNames, name)) return EntryRule::kTools;
  if (is_saved_data_set_ && name == "state.json") return EntryRule::kTools;
  // The snapshots are links to the blobs, under the files' own names.
  if (is_hub_cache_ && (name == "blobs" || name == "refs")) {
    return EntryRule::kTools;
  }
  return EntryRule::kData;
}

bool IsToolFolderName(absl::string_view name) {
  return name == "node_modules" || name == "__pycache__";
}

bool IsBackupName(absl::string_view name) {
  if (name.size() > 2 && name.front() == '#' && name.back() == '#') return true;
  for (const absl::string_view ending :
       {"~", ".bak", ".swp", ".swo", ".orig", ".tmp"}) {
    if (absl::EndsWithIgnoreCase(name, ending)) return true;
  }
  // Office's locks, Windows' folders, copies of Syncthing and Dropbox.
  return absl::StartsWith(name, "~$") ||
         absl::EqualsIgnoreCase(name, "desktop.ini") ||
         absl::EqualsIgnoreCase(name, "thumbs.db") ||
         absl::StrContains(name, ".sync-conflict-") ||
         absl::StrContains(name, "conflicted copy");
}

}  // namespace evenstep::data
