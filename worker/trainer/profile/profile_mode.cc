#include "worker/trainer/profile/profile_mode.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/config_table.h"
#include "base/status_macros.h"
#include "jobspec/job_spec.h"
#include "jobspec/profile.h"
#include "worker/trainer/link/trainer_mode.h"
#include "worker/trainer/model/tensor_memory.h"
#include "worker/trainer/profile/run_profile.h"

namespace evenstep::trainer {
namespace {

constexpr int64_t kMaxJobFileBytes = 1 << 20;
constexpr int kMostRanks = 64;
constexpr int kMostRepeats = 1000;

struct ProfileMode {
  std::string job_path;
  std::string out_path;
  int ranks = 1;
  int repeats = 5;
};

absl::Status InRange(absl::string_view flag, int value, int most) {
  if (value >= 1 && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": ", value, " is not in 1 to ", most));
}

absl::Status MeasureAndWrite(const ProfileMode& mode,
                             const DeviceSupport* device,
                             const NamedModels* models) {
  ProfileRun run;
  EVENSTEP_ASSIGN_OR_RETURN(const std::string text,
                            ReadWholeFile(mode.job_path, kMaxJobFileBytes));
  jobspec::ParseOptions options;
  options.name = mode.job_path;
  EVENSTEP_ASSIGN_OR_RETURN(run.spec, jobspec::ParseJobFile(text, options));
  run.ranks = mode.ranks;
  run.repeats = mode.repeats;
  run.device = device;
  run.models = models;
  EVENSTEP_ASSIGN_OR_RETURN(const jobspec::Profile profile, RunProfile(run));
  return WriteFileAtomically(mode.out_path, jobspec::FormatProfile(profile));
}

absl::Status Validate(const ProfileMode& mode) {
  if (mode.job_path.empty()) {
    return absl::InvalidArgumentError("job: a job file is needed");
  }
  if (mode.out_path.empty()) {
    return absl::InvalidArgumentError("out: a file is needed");
  }
  EVENSTEP_RETURN_IF_ERROR(InRange("ranks", mode.ranks, kMostRanks));
  return InRange("repeats", mode.repeats, kMostRepeats);
}

}  // namespace

int ProfileMain(int argc, char** argv, const DeviceSupport* device,
                const NamedModels* models) {
  ProfileMode mode;
  ConfigTable table("evenstep-trainer profile",
                    "Measures what a job's model costs here, for `evenstep "
                    "profile`.");
  table.Add("job", "EVENSTEP_PROFILE_JOB", &mode.job_path,
            "complete job file whose model is measured");
  table.Add("out", "EVENSTEP_PROFILE_OUT", &mode.out_path,
            "file that the profile is written to");
  table.Add("ranks", "EVENSTEP_PROFILE_RANKS", &mode.ranks,
            "ranks to measure with, as threads");
  table.Add("repeats", "EVENSTEP_PROFILE_REPEATS", &mode.repeats,
            "how often each point is timed");
  table.AddCheck([&] { return Validate(mode); });
  return RunMode(kProfileWord, &table, argc, argv, [&] {
    CountTensorBytes();
    return MeasureAndWrite(mode, device, models);
  });
}

}  // namespace evenstep::trainer
