#include "worker/trainer/parallel/compute_timer.h"

#include <ATen/Parallel.h>

#include <chrono>

#include "worker/trainer/comm/thread_cpu.h"

namespace evenstep::trainer {
namespace {

int64_t WallNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

ComputeClock ComputeClockFor(c10::Device device) {
  return device.is_cpu() && at::get_num_threads() == 1
             ? ComputeClock::kThreadCpu
             : ComputeClock::kWall;
}

ComputeTimer::ComputeTimer(ComputeClock clock, const Communicator& group)
    : clock_(clock), group_(group), start_ns_(NowNs()) {}

int64_t ComputeTimer::NowNs() const {
  if (clock_ == ComputeClock::kWall) return WallNs() - group_.collective_ns();
  return ThreadCpuNs() - group_.collective_cpu_ns();
}

}  // namespace evenstep::trainer
