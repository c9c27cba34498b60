#ifndef EVENSTEP_WORKER_TRAINER_COMM_HOST_DEVICE_COMMUNICATOR_H_
#define EVENSTEP_WORKER_TRAINER_COMM_HOST_DEVICE_COMMUNICATOR_H_

// Groups that work on host and on device memory: calls on the host's go to one
// back end (Gloo), calls on the device's to another (NCCL). So gates and the
// step's totals stay on the CPU, tensors on the device, and the code above need
// not know. Every rank passes memory of the same kind to a call; barriers, and
// calls that move nothing on any rank, are the host's. Threads as in
// communicator.h.

#include <functional>
#include <memory>

#include "worker/trainer/comm/communicator_factory.h"

namespace evenstep::trainer {

struct HostDeviceParts {
  std::unique_ptr<CommunicatorFactory> host;
  std::unique_ptr<CommunicatorFactory> device;
  // Whether memory is the device's. Null stands for a rank that has neither to
  // send nor to receive in an AllToAllv: the answer must be where its peers'
  // is.
  std::function<bool(const void*)> is_on_device;
};
std::unique_ptr<CommunicatorFactory> MakeHostDeviceFactory(
    HostDeviceParts parts);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_COMM_HOST_DEVICE_COMMUNICATOR_H_
