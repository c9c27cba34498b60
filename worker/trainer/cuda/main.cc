// evenstep-trainer-cuda: one rank of a job, on a GPU. Started by the agent,
// ends with it. With the word `profile`: measures what a model costs here.

#include "worker/trainer/cuda/cuda_support.h"
#include "worker/trainer/loop/trainer_main.h"
#include "worker/trainer/profile/profile_mode.h"

int main(int argc, char** argv) {
  const evenstep::trainer::DeviceSupport cuda =
      evenstep::trainer::MakeCudaSupport();
  if (evenstep::trainer::AsksForProfile(argc, argv)) {
    return evenstep::trainer::ProfileMain(argc - 1, argv + 1, &cuda);
  }
  return evenstep::trainer::TrainerMain(argc, argv, &cuda);
}
