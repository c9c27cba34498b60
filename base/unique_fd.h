#ifndef EVENSTEP_BASE_UNIQUE_FD_H_
#define EVENSTEP_BASE_UNIQUE_FD_H_

// Owner of one file descriptor: closes it once. Movable, not copyable; as
// thread-safe as an int.

#include <unistd.h>

#include <utility>

namespace evenstep {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Gives the descriptor up without closing it.
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace evenstep

#endif  // EVENSTEP_BASE_UNIQUE_FD_H_
