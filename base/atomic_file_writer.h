#ifndef EVENSTEP_BASE_ATOMIC_FILE_WRITER_H_
#define EVENSTEP_BASE_ATOMIC_FILE_WRITER_H_

// Writes a file piece by piece, so that a large one need not be in memory as a
// whole. Under its name the file is complete or absent, as with
// WriteFileAtomically, which is made of this. One thread.
//
//   EVENSTEP_ASSIGN_OR_RETURN(auto writer, AtomicFileWriter::Open(path));
//   EVENSTEP_RETURN_IF_ERROR(writer.Append(bytes));
//   EVENSTEP_RETURN_IF_ERROR(writer.Commit());

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"

namespace evenstep {

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

#endif  // EVENSTEP_BASE_ATOMIC_FILE_WRITER_H_
