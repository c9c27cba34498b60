// evenstep-trainer: one rank of a job. Started by the agent, ends with it.

#include "evenstep/trainer/trainer_binary.h"

int main(int argc, char** argv) {
  return evenstep::trainer::RunTrainerBinary(argc, argv, {});
}
