#include "evenstep/trainer/trainer_binary.h"

#include "worker/trainer/generate/generate_mode.h"
#include "worker/trainer/link/trainer_mode.h"
#include "worker/trainer/loop/run_trainer.h"
#include "worker/trainer/profile/profile_mode.h"

namespace evenstep::trainer {

int RunTrainerBinary(int argc, char** argv, const TrainerBinary& binary) {
  if (AsksForMode(kProfileWord, argc, argv)) {
    return ProfileMain(argc - 1, argv + 1, binary.device, &binary.models);
  }
  if (AsksForMode(kGenerateWord, argc, argv)) {
    return GenerateMain(argc - 1, argv + 1, binary.models);
  }
  return TrainerMain(argc, argv, binary.device, &binary.models);
}

}  // namespace evenstep::trainer
