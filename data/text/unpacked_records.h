#ifndef EVENSTEP_DATA_TEXT_UNPACKED_RECORDS_H_
#define EVENSTEP_DATA_TEXT_UNPACKED_RECORDS_H_

// The records of compressed files, for reading in any order: a file is unpacked
// when the first of its records is read, into a temporary file that has no
// name, under TMPDIR or /tmp, and is gone with the process. Thread-safe.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/unique_fd.h"
#include "data/text/text_file.h"

namespace evenstep::data {

class UnpackedRecords {
 public:
  // The bytes of record `number` (JsonLine::number) of the file at `path`,
  // which callers name by `file` too. DATA_LOSS: it has no such record (any
  // more). RESOURCE_EXHAUSTED: no room to unpack it.
  absl::StatusOr<std::string> Read(int64_t file, const std::string& path,
                                   TextLayout layout, int64_t number);

 private:
  struct Place {
    int64_t offset = 0;  // in the temporary file
    int64_t bytes = 0;
  };
  using Places = std::vector<Place>;  // by number, from 1

  absl::StatusOr<const Places*> Find(int64_t file, const std::string& path,
                                     TextLayout layout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Unpack(const std::string& path, TextLayout layout,
                      Places* places) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  UniqueFd fd_ ABSL_GUARDED_BY(mutex_);
  int64_t end_ ABSL_GUARDED_BY(mutex_) = 0;  // of the temporary file
  std::map<int64_t, Places> files_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_TEXT_UNPACKED_RECORDS_H_
