// evenstep-trainer: one rank of a job. Started by the agent, ends with it. With
// the word `profile`, by which `evenstep profile` starts it: measures what a
// model costs here, and ends. With the word `generate`: samples a clip.

#include <cstring>

#include "worker/trainer/generate/generate_mode.h"
#include "worker/trainer/loop/trainer_main.h"
#include "worker/trainer/profile/profile_mode.h"

int main(int argc, char** argv) {
  if (evenstep::trainer::AsksForProfile(argc, argv)) {
    return evenstep::trainer::ProfileMain(argc - 1, argv + 1,
                                          /*device=*/nullptr);
  }
  if (argc > 1 && std::strcmp(argv[1], evenstep::trainer::kGenerateWord) == 0) {
    return evenstep::trainer::GenerateMain(argc - 1, argv + 1);
  }
  return evenstep::trainer::TrainerMain(argc, argv, /*device=*/nullptr);
}
