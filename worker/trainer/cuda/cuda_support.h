#ifndef EVENSTEP_WORKER_TRAINER_CUDA_CUDA_SUPPORT_H_
#define EVENSTEP_WORKER_TRAINER_CUDA_CUDA_SUPPORT_H_

// A GPU for each rank of a node, with tensors and NCCL on one stream of the
// process, and Gloo for gates and totals. It compiles and links on any machine.
// One GPU has run it (tests/device/run.sh), several have not (docs/cuda.md).

#include "worker/trainer/job/device_support.h"

namespace evenstep::trainer {

DeviceSupport MakeCudaSupport();

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_CUDA_CUDA_SUPPORT_H_
