#ifndef EVENSTEP_WORKER_TRAINER_PARALLEL_COMPUTE_TIMER_H_
#define EVENSTEP_WORKER_TRAINER_PARALLEL_COMPUTE_TIMER_H_

// How long a rank computes, its group's collectives left out. A rank of one
// thread on CPU is timed by that thread's CPU clock, so that costs measured on
// a busy machine are those of a quiet one; with more threads, or on a device,
// by the wall clock. A device works on what was queued while the host goes on:
// so the timer waits for it, at its start and whenever it is read. Used by the
// step runner, the step loop and the profile, on the thread that computes.

#include <c10/core/Device.h>

#include <cstdint>

#include "worker/trainer/comm/communicator.h"

namespace evenstep::trainer {

struct ComputeClock {
  enum class Kind { kThreadCpu, kWall };
  Kind kind = Kind::kWall;
  c10::Device device = c10::kCPU;
};

// For a rank that computes on `device`, with as many threads as torch uses now.
ComputeClock ComputeClockFor(c10::Device device);

class ComputeTimer {
 public:
  // Starts. `group` outlives the timer.
  ComputeTimer(const ComputeClock& clock, const Communicator& group);
  int64_t ElapsedNs() const { return NowNs() - start_ns_; }

 private:
  int64_t NowNs() const;

  const ComputeClock clock_;
  const Communicator& group_;
  const int64_t start_ns_;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PARALLEL_COMPUTE_TIMER_H_
