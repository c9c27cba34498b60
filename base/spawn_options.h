#ifndef EVENSTEP_BASE_SPAWN_OPTIONS_H_
#define EVENSTEP_BASE_SPAWN_OPTIONS_H_

// posix_spawn's two option objects, set up for every child that Evenstep
// starts: standard input is /dev/null, signals are as at a login, and the child
// leads a process group of its own. The caller adds where output goes. Movable
// by nobody, used by one thread.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>

namespace evenstep {

class SpawnOptions {
 public:
  SpawnOptions() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK |
                                               POSIX_SPAWN_SETSIGDEF |
                                               POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnOptions() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnOptions(const SpawnOptions&) = delete;
  SpawnOptions& operator=(const SpawnOptions&) = delete;

  posix_spawn_file_actions_t* actions() { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace evenstep

#endif  // EVENSTEP_BASE_SPAWN_OPTIONS_H_
