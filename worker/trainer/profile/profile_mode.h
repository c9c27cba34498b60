#ifndef EVENSTEP_WORKER_TRAINER_PROFILE_PROFILE_MODE_H_
#define EVENSTEP_WORKER_TRAINER_PROFILE_PROFILE_MODE_H_

// The trainer's process as a profiler: from a job file to a profile's file.
// Started by `evenstep profile`, which links no torch.

#include "evenstep/trainer/model_request.h"
#include "worker/trainer/job/device_support.h"

namespace evenstep::trainer {

// First word of the command line that asks for this mode.
inline constexpr char kProfileWord[] = "profile";

// `argv[0]` is that word; `device` is null for the CPU; it and `models` outlive
// the call. Returns the exit code (link/failure.h); a failure is logged.
int ProfileMain(int argc, char** argv, const DeviceSupport* device,
                const NamedModels* models);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PROFILE_PROFILE_MODE_H_
