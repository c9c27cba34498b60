#ifndef EVENSTEP_WORKER_TRAINER_GENERATE_GENERATE_MODE_H_
#define EVENSTEP_WORKER_TRAINER_GENERATE_GENERATE_MODE_H_

// The trainer's process as a user of what was trained: from weights to an
// animated picture, or to text. Started by `evenstep generate`, which links no
// torch.

#include "worker/trainer/model/named_models.h"

namespace evenstep::trainer {

// First word of the command line that asks for this mode.
inline constexpr char kGenerateWord[] = "generate";

// `argv[0]` is that word, `models` are those that the trainer was built with.
// Returns the exit code (link/failure.h); a failure is logged.
int GenerateMain(int argc, char** argv, const NamedModels& models);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_GENERATE_GENERATE_MODE_H_
