#ifndef EVENSTEP_DATA_TEXT_FILE_LIST_H_
#define EVENSTEP_DATA_TEXT_FILE_LIST_H_

// Which files a `text:PATH` source means, from their directory entries alone:
// no file is opened. Called when a data set is opened. Stateless.
//
// PATH is a folder (everything below it), a pattern (`*`, `?` and sets such as
// `[a-z]` or `[!ab]` inside a name, by bytes as POSIX has them but without
// classes; `**` for any number of folders), or one file. Links below PATH are
// not followed and are no documents; PATH itself may be one.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace evenstep::data {

// Files of our own beside the data begin with this and are no documents.
inline constexpr absl::string_view kIndexFilePrefix = ".evenstep-index-";

struct ListedFile {
  std::string name;  // relative to FileList::root
  int64_t bytes = 0;
  int64_t mtime_ns = 0;
  std::string problem;  // why it cannot be read; empty: nothing known
};

struct FileList {
  std::string root;               // folder
  std::vector<ListedFile> files;  // ascending by the bytes of their names
  int64_t num_links = 0;          // left out
};

// NOT_FOUND: no such path. INVALID_ARGUMENT: empty path.
absl::StatusOr<FileList> ListFiles(absl::string_view path);

// Whether `name` matches one part of a pattern, which has no '/'.
bool MatchesPart(absl::string_view pattern, absl::string_view name);

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TEXT_FILE_LIST_H_
