#ifndef EVENSTEP_WORKER_TRAINER_LOOP_RUN_TRAINER_H_
#define EVENSTEP_WORKER_TRAINER_LOOP_RUN_TRAINER_H_

// A trainer process between its command line and its exit code: joins its
// agent, is told what to run, trains, says how it ended. Never outlives its
// agent: when the socket closes, the process ends at once. A rank that is told
// to abandon leaves its collectives, and the process ends within a second.

#include <string>

#include "absl/status/status.h"
#include "evenstep/trainer/model_request.h"
#include "worker/trainer/job/device_support.h"

namespace evenstep::trainer {

struct TrainerOptions {
  std::string socket_path;
  int rank = -1;
  std::string fault_text;  // of EVENSTEP_TRAINER_FAULT; empty outside tests
  // Of EVENSTEP_TRAINER_EMULATED_LINK; empty outside benchmarks.
  std::string emulated_link_text;
  const DeviceSupport* device = nullptr;  // null: the CPU
  const NamedModels* models = nullptr;    // null: the trainer's own alone
};

absl::Status ValidateTrainerOptions(const TrainerOptions& options);

// Returns kExitFinished, or another exit code of failure.h. Some ends do not
// return: the process may end inside, with kExitAbandoned or kExitAgentGone.
int RunTrainer(const TrainerOptions& options);

// The command line of a trainer, the same for the CPU and for a device.

// Returns the exit code; may end the process inside (run_trainer.h). `device`
// is null for the CPU; it and `models` outlive the call.
int TrainerMain(int argc, char** argv, const DeviceSupport* device,
                const NamedModels* models);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LOOP_RUN_TRAINER_H_
