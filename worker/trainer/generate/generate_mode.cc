#include "worker/trainer/generate/generate_mode.h"

#include <ATen/Parallel.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/config_table.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "worker/trainer/generate/animated_gif.h"
#include "worker/trainer/generate/load_model.h"
#include "worker/trainer/generate/sample_clip.h"
#include "worker/trainer/loop/failure.h"

namespace evenstep::trainer {
namespace {

constexpr int kMostSide = 4096;  // frames, latent pixels, steps

struct GenerateMode {
  std::string weights;
  std::string out;
  int frames = 16;
  int height = 16;
  int width = 16;
  int steps = 50;
  uint64_t seed = 0;
  bool untrained = false;
};

absl::Status Validate(const GenerateMode& mode) {
  if (mode.weights.empty() || mode.out.empty()) {
    return absl::InvalidArgumentError("weights and out: both are needed");
  }
  for (const auto& [flag, value] : {std::pair("frames", mode.frames),
                                    {"height", mode.height},
                                    {"width", mode.width},
                                    {"steps", mode.steps}}) {
    if (value >= 1 && value <= kMostSide) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": ", value, " is not in 1 to ", kMostSide));
  }
  return absl::OkStatus();
}

absl::Status Generate(const GenerateMode& mode) {
  EVENSTEP_ASSIGN_OR_RETURN(
      const LoadedVideoModel loaded,
      LoadVideoModel(mode.weights, mode.untrained ? LoadedValues::kInitial
                                                  : LoadedValues::kTrained));
  const int patch = loaded.patch;
  if (mode.height % patch != 0 || mode.width % patch != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("height ", mode.height, " and width ", mode.width,
                     " are no multiples of the model's patch of ", patch));
  }
  SampleClipOptions sample;
  sample.shape = {mode.frames, mode.height / patch, mode.width / patch};
  sample.patch_values = int64_t{patch} * patch * loaded.channels;
  sample.steps = mode.steps;
  sample.seed = mode.seed;
  EVENSTEP_ASSIGN_OR_RETURN(const data::Clip clip,
                            SampleClip(sample, loaded.model.get()));
  GifOptions gif;
  gif.patch = patch;
  gif.channels = loaded.channels;
  return WriteAnimatedGif(mode.out, clip, gif);
}

}  // namespace

int GenerateMain(int argc, char** argv) {
  GenerateMode mode;
  ConfigTable table("evenstep-trainer generate",
                    "Samples a clip from a trained video model, for `evenstep "
                    "generate`.");
  table.Add("weights", "EVENSTEP_GENERATE_WEIGHTS", &mode.weights,
            "weights file of a video job");
  table.Add("out", "EVENSTEP_GENERATE_OUT", &mode.out,
            "file that the animated picture is written to");
  table.Add("frames", "EVENSTEP_GENERATE_FRAMES", &mode.frames,
            "frames of the clip");
  table.Add("height", "EVENSTEP_GENERATE_HEIGHT", &mode.height,
            "its height in latent pixels");
  table.Add("width", "EVENSTEP_GENERATE_WIDTH", &mode.width,
            "its width in latent pixels");
  table.Add("steps", "EVENSTEP_GENERATE_STEPS", &mode.steps,
            "steps from noise to the clip");
  table.Add("seed", "EVENSTEP_GENERATE_SEED", &mode.seed, "seed of the noise");
  table.Add("untrained", "EVENSTEP_GENERATE_UNTRAINED", &mode.untrained,
            "take the values that the job began with");
  table.AddCheck([&] { return Validate(mode); });
  if (const std::optional<int> code = table.Run(argc, argv)) return *code;
  SetUpLogging(LogLevel::kInfo, LogFormat::kText, "generate");
  at::set_num_threads(1);
  const absl::Status status = Generate(mode);
  if (status.ok()) return kExitFinished;
  Log(LogLevel::kError, "generate_failed", {{"reason", status}});
  return kExitStartFailed;
}

}  // namespace evenstep::trainer
