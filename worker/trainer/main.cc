// evenstep-trainer: one rank of a job. Started by the agent, ends with it.

#include "worker/trainer/loop/trainer_main.h"

int main(int argc, char** argv) {
  return evenstep::trainer::TrainerMain(argc, argv, /*device=*/nullptr);
}
