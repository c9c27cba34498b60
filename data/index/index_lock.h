#ifndef EVENSTEP_DATA_INDEX_INDEX_LOCK_H_
#define EVENSTEP_DATA_INDEX_INDEX_LOCK_H_

// A lock between processes that would make the same index: a file that is
// there only while one of them holds it. Released when the holder ends, however
// it ends. Where the file system has no locks, everybody gets it at once.
//
// The holder writes into the file how far it is, for those who wait: three
// integers of 8 bytes, little-endian, bytes_done, bytes_total and num_reports
// of IndexProgress. Nothing depends on them but what waiting processes report.

#include <optional>
#include <string>
#include <utility>

#include "base/unique_fd.h"
#include "data/dataset.h"

namespace evenstep::data {

class IndexLock {
 public:
  // Absent: another process, or another part of this one, holds it; what it
  // has told of its progress goes into `holder`, unless that is null.
  static std::optional<IndexLock> Try(const std::string& path,
                                      IndexProgress* holder = nullptr);
  ~IndexLock();
  IndexLock(IndexLock&&) = default;

  // For those who wait. Errors are passed over: they see nothing then.
  void Tell(const IndexProgress& progress) const;

 private:
  IndexLock(std::string path, UniqueFd fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;  // not valid: there are no locks here
};

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_INDEX_INDEX_LOCK_H_
