#include "worker/trainer/loop/weights_keeper.h"

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/atomic_file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "worker/trainer/job/weights.h"

namespace evenstep::trainer {
namespace {

constexpr absl::string_view kEnding = ".safetensors";

// Ranks of a failing job may not know of each other, and nodes may share the
// folder: only rank 0 writes under the usual name.
std::string WeightsPath(const TrainerSetup& setup) {
  if (setup.rank == 0) return absl::StrCat(setup.output_dir, "/", kWeightsName);
  return absl::StrCat(setup.output_dir, "/model.rank-", setup.rank, kEnding);
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

}  // namespace

void FillWeights(const absl::StatusOr<KeptWeights>& kept, v1::Finished* to) {
  if (kept.ok()) {
    to->set_weights_path(kept->path);
    to->set_weights_steps(kept->steps);
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
  const KeptWeights kept = {WeightsPath(setup_), state_.steps};
  EVENSTEP_RETURN_IF_ERROR(KeepLongerTrained(kept.path, kept.steps));
  EVENSTEP_RETURN_IF_ERROR(
      WriteWeights(kept.path, setup_, parameters_, kept.steps, on_progress_));
  if (IsLlama(setup_.spec.model)) {
    EVENSTEP_RETURN_IF_ERROR(WriteLlamaConfig(
        absl::StrCat(setup_.output_dir, "/", kConfigName), setup_));
  }
  return kept;
}

}  // namespace evenstep::trainer
