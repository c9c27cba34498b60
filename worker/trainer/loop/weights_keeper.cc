#include "worker/trainer/loop/weights_keeper.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/atomic_file.h"
#include "base/log.h"
#include "base/output_marker.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "worker/trainer/job/weights.h"
#include "worker/trainer/link/failure.h"

namespace evenstep::trainer {
namespace {

constexpr absl::string_view kEnding = ".safetensors";

// Ranks of a failing job may not know of each other, and nodes may share the
// folder: only rank 0 writes under the usual name.
std::string WeightsPath(const std::string& folder, int rank) {
  if (rank == 0) return absl::StrCat(folder, "/", kWeightsName);
  return absl::StrCat(folder, "/model.rank-", rank, kEnding);
}

// Of weights that an attempt of this job left; none where there is no sound
// file.
std::optional<int64_t> StepsOf(const std::string& path) {
  const auto header = data::ReadSafetensorsHeader(path);
  if (!header.ok()) return std::nullopt;
  const auto steps = header->metadata.find("evenstep.steps");
  int64_t number = 0;
  if (steps == header->metadata.end() ||
      !absl::SimpleAtoi(steps->second, &number)) {
    return std::nullopt;
  }
  return number;
}

// An attempt that began anew and ended sooner does not replace the weights of
// an earlier one: "model.safetensors" becomes
// "model.after-100-steps.safetensors".
absl::Status KeepLongerTrained(const std::string& path, int64_t steps) {
  const std::optional<int64_t> earlier = StepsOf(path);
  if (!earlier || *earlier <= steps) return absl::OkStatus();
  const std::string kept = absl::StrCat(absl::StripSuffix(path, kEnding),
                                        ".after-", *earlier, "-steps", kEnding);
  if (rename(path.c_str(), kept.c_str()) != 0) {
    return ErrnoStatus(errno, "cannot rename", path);
  }
  Log(LogLevel::kWarning, "weights_of_earlier_attempt_kept",
      {{"path", kept}, {"steps", *earlier}, {"steps_now", steps}});
  return absl::OkStatus();
}

// Whether the model is what Hugging Face calls so.
bool IsLlama(const jobspec::ModelSpec& model) {
  return !model.is_video() && model.name.empty() &&
         model.attention == jobspec::Attention::kCausal;
}

// The most that a new file in the folder may have.
int64_t RoomIn(const std::string& folder) {
  int64_t room = std::numeric_limits<int64_t>::max();
  struct statvfs disk = {};
  if (statvfs(folder.c_str(), &disk) == 0 && disk.f_blocks > 0 &&
      disk.f_frsize > 0 &&
      disk.f_bavail <= static_cast<uint64_t>(room) / disk.f_frsize) {
    room = static_cast<int64_t>(disk.f_bavail * disk.f_frsize);
  }  // else it is a network file system without a limit
  struct rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
      limit.rlim_cur < static_cast<rlim_t>(room)) {
    room = static_cast<int64_t>(limit.rlim_cur);
  }
  return room;
}

// A new one in TMPDIR or /tmp, which is not data of a later run.
absl::StatusOr<std::string> MakeFallbackFolder(const std::string& job_id) {
  std::error_code error;
  const std::filesystem::path place =
      std::filesystem::temp_directory_path(error);
  if (error) return ErrnoStatus(error.value(), "no folder", "TMPDIR");
  std::string path =
      (place / absl::StrCat("evenstep-weights-", job_id, "-XXXXXX")).string();
  if (mkdtemp(path.data()) == nullptr) {
    return ErrnoStatus(errno, "cannot make a folder", path);
  }
  MarkOutputs(path, {kAllOutputs}).IgnoreError();
  return path;
}

}  // namespace

absl::Status CheckRoomForWeights(
    const TrainerSetup& setup, const std::vector<NamedParameter>& parameters) {
  int64_t bytes = 0;
  for (const NamedParameter& parameter : parameters) {
    bytes += static_cast<int64_t>(parameter.value.nbytes());
  }
  const int64_t room = RoomIn(setup.output_dir);
  if (room >= bytes) return absl::OkStatus();
  return FailureError(
      FailureReason::kStorageFull, kNoStep,
      absl::StrCat("the weights have ", bytes, " bytes, and ", setup.output_dir,
                   " has room for ", room,
                   " (free space, or the limit of file sizes); make room, or "
                   "choose another disk (--output of evenstep local, "
                   "--output-root of an agent)"));
}

void FillWeights(const absl::StatusOr<KeptWeights>& kept, v1::Finished* to) {
  if (kept.ok()) {
    to->set_weights_path(kept->path);
    to->set_weights_steps(kept->steps);
    to->set_weights_note(ToValidUtf8(kept->note));
  } else {
    to->set_weights_note(ToValidUtf8(kept.status().message()));
  }
}

void WeightsKeeper::Begin(const TrainerSetup& setup,
                          std::vector<NamedParameter> parameters,
                          data::WriteProgress on_progress) {
  absl::MutexLock lock(&mutex_);
  setup_ = setup;
  parameters_ = std::move(parameters);
  on_progress_ = std::move(on_progress);
}

absl::Status WeightsKeeper::Change(absl::FunctionRef<Parameters()> change) {
  absl::MutexLock lock(&mutex_);
  if (kept_.has_value()) {
    return absl::AbortedError("the run has ended: its weights were written");
  }
  state_ = change();
  return absl::OkStatus();
}

absl::StatusOr<KeptWeights> WeightsKeeper::Keep() {
  absl::MutexLock lock(&mutex_);
  if (kept_.has_value()) return *kept_;
  kept_ = Write();
  if (kept_->ok()) {
    Log(LogLevel::kInfo, "weights_written",
        {{"path", (*kept_)->path}, {"steps", (*kept_)->steps}});
  } else {
    Log(LogLevel::kWarning, "weights_not_written",
        {{"reason", kept_->status()}});
  }
  return *kept_;
}

absl::StatusOr<KeptWeights> WeightsKeeper::Write() const {
  if (state_.steps == 0 && state_.whole) {
    return absl::FailedPreconditionError("no step was done");
  }
  if (!state_.whole) {
    return absl::FailedPreconditionError(absl::StrCat(
        "rank ", setup_.rank, " was in the middle of the update of step ",
        state_.steps, ": its parameters are of two steps"));
  }
  absl::StatusOr<KeptWeights> kept = WriteInto(setup_.output_dir);
  return kept.ok() ? kept : WriteElsewhere(kept.status());
}

absl::StatusOr<KeptWeights> WeightsKeeper::WriteInto(
    const std::string& folder) const {
  EVENSTEP_RETURN_IF_ERROR(MakeFolders(folder));
  KeptWeights kept = {WeightsPath(folder, setup_.rank), state_.steps, ""};
  EVENSTEP_RETURN_IF_ERROR(KeepLongerTrained(kept.path, kept.steps));
  EVENSTEP_RETURN_IF_ERROR(
      WriteWeights(kept.path, setup_, parameters_, kept.steps, on_progress_));
  if (!IsLlama(setup_.spec.model)) return kept;
  const absl::Status config =
      WriteLlamaConfig(absl::StrCat(folder, "/", kConfigName), setup_);
  // The weights are complete without it.
  if (!config.ok()) {
    kept.note = absl::StrCat("config.json is missing: ", config.message());
  }
  return kept;
}

// The work of a whole run is worth a second try.
absl::StatusOr<KeptWeights> WeightsKeeper::WriteElsewhere(
    const absl::Status& why) const {
  const auto folder = MakeFallbackFolder(setup_.job_id);
  absl::StatusOr<KeptWeights> kept =
      folder.ok() ? WriteInto(*folder) : folder.status();
  if (kept.ok()) {
    kept->note =
        absl::StrCat("the job's folder does not take them: ", why.message(),
                     "; they are in ", *folder);
    return kept;
  }
  std::error_code error;
  if (folder.ok()) std::filesystem::remove_all(*folder, error);
  return WithReason(
      absl::Status(why.code(), absl::StrCat(why.message(), "; nor elsewhere: ",
                                            kept.status().message())),
      ReasonOf(why), StepOf(why));
}

}  // namespace evenstep::trainer
