#include "data/index/index_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace evenstep::data {
namespace {

struct ToldProgress {
  int64_t bytes_done = 0;
  int64_t bytes_total = 0;
  int64_t num_reports = 0;
};

// No sum of files is larger; what is was not written by a holder.
constexpr int64_t kMostBytes = int64_t{1} << 56;

void ReadTold(int fd, IndexProgress* holder) {
  ToldProgress told;
  if (pread(fd, &told, sizeof(told), 0) != sizeof(told)) return;
  if (told.bytes_done < 0 || told.bytes_done > told.bytes_total ||
      told.bytes_total > kMostBytes) {
    return;
  }
  holder->bytes_done = told.bytes_done;
  holder->bytes_total = told.bytes_total;
  holder->num_reports = told.num_reports;
}

}  // namespace

std::optional<IndexLock> IndexLock::Try(const std::string& path,
                                        IndexProgress* holder) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                   S_IRUSR | S_IWUSR));
  if (!fd.valid()) return IndexLock(path, UniqueFd());
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
    IndexLock lock(path, std::move(fd));
    lock.Tell(IndexProgress());  // not what one that was killed has told
    return lock;
  }
  if (errno == EWOULDBLOCK || errno == EINTR) {
    if (holder != nullptr) ReadTold(fd.get(), holder);
    return std::nullopt;
  }
  return IndexLock(path, UniqueFd());
}

void IndexLock::Tell(const IndexProgress& progress) const {
  if (!fd_.valid()) return;
  const ToldProgress told = {progress.bytes_done, progress.bytes_total,
                             progress.num_reports};
  // A full disk, or a part of it, tells them nothing.
  [[maybe_unused]] const ssize_t written =
      pwrite(fd_.get(), &told, sizeof(told), 0);
}

// The file goes before the lock does. Whoever waits for it then finds the index
// that was made; whoever comes later makes a file of its own.
IndexLock::~IndexLock() {
  if (fd_.valid()) unlink(path_.c_str());
}

}  // namespace evenstep::data
