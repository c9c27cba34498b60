#ifndef EVENSTEP_WORKER_TRAINER_PROFILE_PROFILE_KEY_H_
#define EVENSTEP_WORKER_TRAINER_PROFILE_PROFILE_KEY_H_

// Of what a profile that is measured here would be true. Called by the profile
// and by every rank of a job that names one.

#include <c10/core/Device.h>

#include <string>

#include "jobspec/job_spec.h"
#include "jobspec/profile.h"

namespace evenstep::trainer {

struct ProfiledDevice {
  c10::Device device = c10::kCPU;
  int threads_per_rank = 1;
  std::string name;  // DeviceSupport::name; unused on CPU
};

// The job's model and precision, the device (which one, and of CPUs the threads
// of a rank), this binary and its torch.
jobspec::ProfileKey LocalProfileKey(const jobspec::JobSpec& spec,
                                    const ProfiledDevice& where);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_PROFILE_PROFILE_KEY_H_
