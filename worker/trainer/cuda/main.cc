// evenstep-trainer-cuda: one rank of a job, on a GPU. Started by the agent,
// ends with it.

#include "evenstep/trainer/trainer_binary.h"
#include "worker/trainer/cuda/cuda_support.h"

int main(int argc, char** argv) {
  const evenstep::trainer::DeviceSupport cuda =
      evenstep::trainer::MakeCudaSupport();
  return evenstep::trainer::RunTrainerBinary(argc, argv, {.device = &cuda});
}
