#ifndef EVENSTEP_WORKER_TRAINER_COMM_THREAD_CPU_H_
#define EVENSTEP_WORKER_TRAINER_COMM_THREAD_CPU_H_

// CPU time of the calling thread: what a busy neighbour does not change.

#include <cstdint>
#include <ctime>

namespace evenstep::trainer {

// User and system time, in nanoseconds.
inline int64_t ThreadCpuNs() {
  timespec now = {};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) return 0;
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_THREAD_CPU_H_
