#ifndef EVENSTEP_WORKER_TRAINER_PROFILE_RUN_PROFILE_H_
#define EVENSTEP_WORKER_TRAINER_PROFILE_RUN_PROFILE_H_

// Measures a profile: the trainer's mode behind `evenstep profile`. Ranks are
// threads of this process, one core or one device each, that talk over Gloo on
// loopback (and NCCL), as a job's trainers on one node do; no agent and no
// coordinator. Models have few layers and made-up tokens (profile_points.h
// says which). Every point is warmed up, then timed a few times, all points in
// turn.

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "evenstep/trainer/model_request.h"
#include "jobspec/job_spec.h"
#include "jobspec/profile.h"
#include "worker/trainer/job/device_support.h"

namespace evenstep::trainer {

struct ProfileRun {
  jobspec::JobSpec spec;  // the model, the memory of a rank, the longest sample
  int ranks = 1;          // threads
  int repeats = 5;
  const DeviceSupport* device = nullptr;  // null: the CPU
  const NamedModels* models = nullptr;    // null: the trainer's own alone
};

// RESOURCE_EXHAUSTED where the models do not fit into memory, UNAVAILABLE where
// there are fewer devices than ranks; errors of collectives are passed on.
absl::StatusOr<jobspec::Profile> RunProfile(const ProfileRun& run);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PROFILE_RUN_PROFILE_H_
