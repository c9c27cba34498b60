#ifndef EVENSTEP_DATA_TEXT_FILE_LIST_H_
#define EVENSTEP_DATA_TEXT_FILE_LIST_H_

// Which files a `text:PATH` source means, from their directory entries: no file
// is opened but the markers that Evenstep leaves beside its results. Called
// when a data set is opened. Stateless.
//
// PATH is a folder (everything below it), a pattern (glob.h; `**` for any
// number of folders), or one file. Below PATH these are left out, and counted:
// hidden entries, results of earlier runs, what tools keep (folder_rules.h). A
// pattern takes those that one of its parts names: `.*` hidden ones, `*.bak`
// such backups, `node_modules` that folder. PATH itself is taken whatever it is
// called.
//
// A link below PATH is read under its own name where it leads to a regular file
// below PATH, or to the `blobs` of the Hugging Face cache that PATH is a
// snapshot of. Others are left out and counted: links to folders (so no walk is
// endless), out of PATH (so PATH bounds what is read), to nothing, and to a
// file that is listed already.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/dataset.h"
#include "data/text/glob.h"

namespace evenstep::data {

// Files of our own beside the data begin with this and are no documents.
inline constexpr absl::string_view kIndexFilePrefix = ".evenstep-index-";

// How the problem of a folder begins that cannot be listed.
inline constexpr absl::string_view kUnlistedFolder = "folder cannot be listed";

struct ListedFile {
  std::string name;  // relative to FileList::root
  int64_t bytes = 0;
  int64_t mtime_ns = 0;
  std::string problem;  // why it cannot be read; empty: nothing known
};

struct FileList {
  std::string root;  // folder
  // What is meant below it: a pattern, or one name.
  std::string pattern;
  bool is_one_file = false;       // PATH is a file, which is always taken
  std::vector<ListedFile> files;  // ascending by the bytes of their names
  LeftOut left_out;
};

// NOT_FOUND: no such path. INVALID_ARGUMENT: empty path.
absl::StatusOr<FileList> ListFiles(absl::string_view path);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TEXT_FILE_LIST_H_
