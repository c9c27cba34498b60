#ifndef EVENSTEP_DATA_TEXT_FOLDER_RULES_H_
#define EVENSTEP_DATA_TEXT_FOLDER_RULES_H_

// Which entries of a folder are no data, from their names alone: hidden ones,
// Evenstep's own results, and what tools keep beside data (docs/data.md has the
// list). Used by file_list.h for each folder that it walks. Reads the folder's
// output marker; immutable afterwards.

#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/output_marker.h"

namespace evenstep::data {

enum class EntryRule {
  kData,
  kBookkeeping,  // Evenstep's marker or index: left out and not counted
  kHidden,       // its name begins with a dot
  kOwn,          // the result of an earlier run
  kTools,        // packages, caches, backups, a model's or data set's files
};

class FolderRules {
 public:
  // `names`: all entries of the folder at `path`.
  FolderRules(const std::string& path, const std::vector<std::string>& names);

  EntryRule Judge(absl::string_view name) const;
  // Whether the folder says of itself that it is a cache, or is an environment
  // of Python: none of it is data, unless it was named.
  bool IsToolFolder() const { return is_tool_folder_; }

 private:
  bool Has(absl::string_view name) const {
    return names_.find(name) != names_.end();
  }

  const std::set<std::string, std::less<>> names_;
  OutputMarks own_;
  bool is_tool_folder_ = false;
  bool is_model_ = false;           // of Hugging Face's layout
  bool is_saved_data_set_ = false;  // by its library `datasets`
  bool is_hub_cache_ = false;
};

// Whether folders of this name hold what a tool has put there.
bool IsToolFolderName(absl::string_view name);

// Whether an editor, an office or a program that copies files names what it
// keeps beside them so: `note~`, `note.bak`, `note.swp`, `#note#`, `note.orig`,
// `~$note.docx`, `desktop.ini`. Of a pattern: whether it means such names.
bool IsBackupName(absl::string_view name);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TEXT_FOLDER_RULES_H_
