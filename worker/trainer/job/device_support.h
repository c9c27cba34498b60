#ifndef EVENSTEP_WORKER_TRAINER_JOB_DEVICE_SUPPORT_H_
#define EVENSTEP_WORKER_TRAINER_JOB_DEVICE_SUPPORT_H_

// What a trainer for a device adds to one for the CPU: the choice of the device
// and groups that work on its memory. worker/trainer/cuda fills it in for
// evenstep-trainer-cuda; evenstep-trainer has none. Called once each on a
// rank's own thread: the main thread of a trainer, a thread for each rank in a
// profile.

#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/trainer/comm/communicator_factory.h"
#include "worker/trainer/comm/rendezvous_store.h"
#include "worker/trainer/comm/watchdog.h"

namespace evenstep::trainer {

struct DeviceSupport {
  // The device of the rank at this place on its node, made the thread's own.
  std::function<absl::StatusOr<c10::Device>(int local_rank)> start;
  // What the maker calls such a device.
  std::function<std::string(c10::Device device)> name;

  struct GroupParts {
    std::unique_ptr<CommunicatorFactory> host;  // on host memory
    RendezvousStore* store = nullptr;           // outlives the factory
    absl::Duration timeout;
    OnHang end_process;
  };
  // Groups for memory of both kinds.
  std::function<absl::StatusOr<std::unique_ptr<CommunicatorFactory>>(
      GroupParts parts)>
      make_factory;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_JOB_DEVICE_SUPPORT_H_
