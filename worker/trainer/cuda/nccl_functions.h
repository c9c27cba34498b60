#ifndef EVENSTEP_WORKER_TRAINER_CUDA_NCCL_FUNCTIONS_H_
#define EVENSTEP_WORKER_TRAINER_CUDA_NCCL_FUNCTIONS_H_

// The real NCCL behind nccl_table.h: each function calls the one of nccl.h that
// it names. Thread-safe as NCCL is. Needs a GPU to do anything; linked into
// evenstep-trainer-cuda only.

#include <memory>

#include "worker/trainer/comm/nccl_table.h"

namespace evenstep::trainer {

std::unique_ptr<NcclTable> MakeNcclFunctions();

// Whether CUDA knows the memory as a device's.
bool IsOnDevice(const void* memory);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_CUDA_NCCL_FUNCTIONS_H_
