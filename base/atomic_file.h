#ifndef EVENSTEP_BASE_ATOMIC_FILE_H_
#define EVENSTEP_BASE_ATOMIC_FILE_H_

// Whole files, read and written. A written file is there complete or not at
// all, whatever is killed meanwhile and whoever else writes the same path.
// Stateless.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace evenstep {

// The canonical code of an errno, with "WHAT PATH: reason".
absl::Status ErrnoStatus(int error, absl::string_view what,
                         absl::string_view path);

// Writes to a temporary file of its own in the same folder, fsyncs, renames it
// to `path`, and fsyncs the folder. The temporary file is gone after an error.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::string_view content);

// NOT_FOUND, PERMISSION_DENIED and so on by errno. FAILED_PRECONDITION: not a
// regular file. RESOURCE_EXHAUSTED: larger than max_bytes.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path,
                                          int64_t max_bytes);

// Creates a folder and its parents; fine if it is there.
absl::Status MakeFolders(const std::string& path);

}  // namespace evenstep

#endif  // EVENSTEP_BASE_ATOMIC_FILE_H_
