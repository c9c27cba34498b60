#ifndef EVENSTEP_WORKER_TRAINER_LOOP_TRAINER_MAIN_H_
#define EVENSTEP_WORKER_TRAINER_LOOP_TRAINER_MAIN_H_

// The command line of a trainer, the same for the CPU and for a device.

#include "worker/trainer/job/device_support.h"
#include "worker/trainer/model/named_models.h"

namespace evenstep::trainer {

// Returns the exit code; may end the process inside (run_trainer.h). `device`
// is null for the CPU; it and `models` outlive the call.
int TrainerMain(int argc, char** argv, const DeviceSupport* device,
                const NamedModels* models);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_LOOP_TRAINER_MAIN_H_
