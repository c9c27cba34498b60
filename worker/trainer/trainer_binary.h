#ifndef EVENSTEP_WORKER_TRAINER_TRAINER_BINARY_H_
#define EVENSTEP_WORKER_TRAINER_TRAINER_BINARY_H_

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

#include "worker/trainer/job/device_support.h"
#include "worker/trainer/model/named_models.h"

namespace evenstep::trainer {

struct TrainerBinary {
  NamedModels models = {};                // beside the trainer's own
  const DeviceSupport* device = nullptr;  // null: the CPU
};

// Returns the exit code; may end the process inside (loop/run_trainer.h).
int RunTrainerBinary(int argc, char** argv, const TrainerBinary& binary);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_TRAINER_BINARY_H_
