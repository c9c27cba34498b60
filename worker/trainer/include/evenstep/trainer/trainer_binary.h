#ifndef EVENSTEP_TRAINER_TRAINER_BINARY_H_
#define EVENSTEP_TRAINER_TRAINER_BINARY_H_

// What a trainer program is: its main makes one and runs it. evenstep-trainer
// is one without models of its own, evenstep-trainer-cuda adds a device, and
// examples/custom_model a model:
//
//   int main(int argc, char** argv) {
//     return evenstep::trainer::RunTrainerBinary(
//         argc, argv, {.models = {{"gpt2", MakeGpt2}}});
//   }
//
// The agent starts the program as one rank of a job (`--trainer`), `evenstep
// profile` with the word `profile` to measure what a model costs, and `evenstep
// generate` with the word `generate`.

#include "evenstep/trainer/model_request.h"

namespace evenstep::trainer {

struct DeviceSupport;  // only the trainer for GPUs has one

struct TrainerBinary {
  NamedModels models = {};                // beside the trainer's own
  const DeviceSupport* device = nullptr;  // null: the CPU
};

// Called once, on the main thread, before any tensor is made. Returns the exit
// code; may end the process inside.
int RunTrainerBinary(int argc, char** argv, const TrainerBinary& binary);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_TRAINER_TRAINER_BINARY_H_
