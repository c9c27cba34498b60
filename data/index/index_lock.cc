#include "data/index/index_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace evenstep::data {

std::optional<IndexLock> IndexLock::Try(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                   S_IRUSR | S_IWUSR));
  if (!fd.valid()) return IndexLock(path, UniqueFd());
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
    return IndexLock(path, std::move(fd));
  }
  if (errno == EWOULDBLOCK || errno == EINTR) return std::nullopt;
  return IndexLock(path, UniqueFd());
}

// The file goes before the lock does. Whoever waits for it then finds the index
// that was made; whoever comes later makes a file of its own.
IndexLock::~IndexLock() {
  if (fd_.valid()) unlink(path_.c_str());
}

}  // namespace evenstep::data
