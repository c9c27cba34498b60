#include "worker/trainer/parallel/compute_timer.h"

#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <chrono>

#include "worker/trainer/comm/thread_cpu.h"

namespace evenstep::trainer {
namespace {

int64_t WallNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Until what this thread has queued on the device is done. An error of the
// device is not the timer's to report: whatever asks the device next gets it.
void WaitFor(c10::Device device) {
  if (device.is_cpu()) return;
  try {
    c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
  } catch (const c10::Error&) {
  }
}

}  // namespace

ComputeClock ComputeClockFor(c10::Device device) {
  const bool one_thread = device.is_cpu() && at::get_num_threads() == 1;
  return {
      one_thread ? ComputeClock::Kind::kThreadCpu : ComputeClock::Kind::kWall,
      device};
}

ComputeTimer::ComputeTimer(const ComputeClock& clock, const Communicator& group)
    : clock_(clock), group_(group), start_ns_(NowNs()) {}

int64_t ComputeTimer::NowNs() const {
  WaitFor(clock_.device);
  if (clock_.kind == ComputeClock::Kind::kWall) {
    return WallNs() - group_.collective_ns();
  }
  return ThreadCpuNs() - group_.collective_cpu_ns();
}

}  // namespace evenstep::trainer
