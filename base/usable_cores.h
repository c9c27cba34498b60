#ifndef EVENSTEP_BASE_USABLE_CORES_H_
#define EVENSTEP_BASE_USABLE_CORES_H_

// How many cores this process may use, which can be fewer than the machine has:
// `taskset` and container runtimes bind a process to some of them, and a cgroup
// may have a quota of CPU time. Whoever chooses a number of ranks or threads
// asks here, never std::thread::hardware_concurrency. Reads files; thread-safe.

#include <string>

namespace evenstep {

struct CgroupFiles {
  std::string membership = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};

// Cores by the calling thread's affinity, at most the smallest quota of the
// process's cgroup (version 1 or 2) and of the cgroups above it, rounded up. At
// least 1. What cannot be read sets no limit.
int UsableCores(const CgroupFiles& files = {});

}  // namespace evenstep

#endif  // EVENSTEP_BASE_USABLE_CORES_H_
