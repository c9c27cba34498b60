#ifndef EVENSTEP_DATA_INDEX_INDEX_LOCK_H_
#define EVENSTEP_DATA_INDEX_INDEX_LOCK_H_

// A lock between processes that would make the same index: a file that is
// there only while one of them holds it. Released when the holder ends, however
// it ends. Where the file system has no locks, everybody gets it at once.

#include <optional>
#include <string>
#include <utility>

#include "base/unique_fd.h"

namespace evenstep::data {

class IndexLock {
 public:
  // Absent: another process, or another part of this one, holds it.
  static std::optional<IndexLock> Try(const std::string& path);
  ~IndexLock();
  IndexLock(IndexLock&&) = default;

 private:
  IndexLock(std::string path, UniqueFd fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;  // not valid: there are no locks here
};

}  // namespace evenstep::data

#endif  // EVENSTEP_DATA_INDEX_INDEX_LOCK_H_
