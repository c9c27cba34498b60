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
#include "base/unique_fd.h"

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

// Writes a file piece by piece, so that a large one need not be in memory as a
// whole. Under its name the file is complete or absent, as with
// WriteFileAtomically, which is made of this. One thread.
//
//   EVENSTEP_ASSIGN_OR_RETURN(auto writer, AtomicFileWriter::Open(path));
//   EVENSTEP_RETURN_IF_ERROR(writer.Append(bytes));
//   EVENSTEP_RETURN_IF_ERROR(writer.Commit());

class AtomicFileWriter {
 public:
  // Makes a temporary file in the folder of `path`. Errors by errno, with the
  // path.
  static absl::StatusOr<AtomicFileWriter> Open(const std::string& path);
  AtomicFileWriter(AtomicFileWriter&& other) noexcept;
  AtomicFileWriter& operator=(AtomicFileWriter&&) = delete;
  // Removes the temporary file unless it was committed.
  ~AtomicFileWriter();

  absl::Status Append(absl::string_view bytes);
  // What was appended is on the disk when this returns.
  absl::Status Sync();
  // Syncs, renames to the path, and syncs the folder. Last call.
  absl::Status Commit();

 private:
  AtomicFileWriter(const std::string& path, const std::string& temporary,
                   int fd);

  std::string path_;
  std::string temporary_;  // empty: committed or moved away
  UniqueFd fd_;
};

}  // namespace evenstep

#endif  // EVENSTEP_BASE_ATOMIC_FILE_H_
