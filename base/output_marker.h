#ifndef EVENSTEP_BASE_OUTPUT_MARKER_H_
#define EVENSTEP_BASE_OUTPUT_MARKER_H_

// Marks files that Evenstep wrote, so that a later run over the same folder
// does not train on them. A folder's marker is the hidden file
// `.evenstep-output`: on each line a name in that folder, or `*` for all of
// them. Written by whoever writes output, read when data is listed. Stateless;
// several processes may mark at once.

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace evenstep {

// Names that begin with this are Evenstep's own bookkeeping.
inline constexpr absl::string_view kOwnFilePrefix = ".evenstep-";
inline constexpr absl::string_view kOutputMarkerName = ".evenstep-output";
inline constexpr absl::string_view kAllOutputs = "*";

// The results of a local run, in a folder that the user chose.
inline constexpr absl::string_view kResultNames[] = {
    "model.safetensors", "config.json",  "loss.csv", "loss.json",
    "job.yaml",          "summary.json", "logs",     "unfinished"};

struct OutputMarks {
  bool all = false;
  std::set<std::string, std::less<>> names;
  bool Has(absl::string_view name) const {
    return all || names.find(name) != names.end();
  }
};

// Adds the names to the folder's marker; those that are there are not added
// again. A name that holds a line end cannot be marked and is passed over.
absl::Status MarkOutputs(const std::string& folder,
                         absl::Span<const absl::string_view> names);
// Marks one regular file by its path. Callers may pass over an error: the file
// is then data like any other.
absl::Status MarkOutput(const std::string& path);

// None where there is no marker, or none that can be read.
OutputMarks ReadOutputMarks(const std::string& folder);

// Those of the names that are in the folder and that no run wrote: a user's.
std::vector<absl::string_view> ForeignFiles(
    const std::string& folder, absl::Span<const absl::string_view> names);
// INVALID_ARGUMENT: output would replace them; another value of the flag is the
// way out.
absl::Status ForeignFilesError(const std::string& folder,
                               absl::Span<const absl::string_view> names,
                               absl::string_view flag);

}  // namespace evenstep

#endif  // EVENSTEP_BASE_OUTPUT_MARKER_H_
