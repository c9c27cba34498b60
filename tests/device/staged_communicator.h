#ifndef EVENSTEP_TESTS_DEVICE_STAGED_COMMUNICATOR_H_
#define EVENSTEP_TESTS_DEVICE_STAGED_COMMUNICATOR_H_

// Collectives on device memory over a back end that works on the host's: copies
// there, exchanges, and copies back. So ranks that are threads can share one
// GPU, which NCCL refuses. For checks only: it is slow. Threads as in
// communicator.h; each rank's thread has the stream that its tensors are made
// on.

#include <memory>

#include "worker/trainer/comm/communicator_factory.h"

namespace evenstep::trainer {

// Memory of the host is passed on as it is.
std::unique_ptr<CommunicatorFactory> MakeStagedFactory(
    std::unique_ptr<CommunicatorFactory> host);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_TESTS_DEVICE_STAGED_COMMUNICATOR_H_
