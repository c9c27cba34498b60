#include "worker/trainer/generate/generate_mode.h"

#include <ATen/Parallel.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/config_table.h"
#include "base/status_macros.h"
#include "jobspec/weights_model.h"
#include "worker/trainer/generate/animated_gif.h"
#include "worker/trainer/generate/load_model.h"
#include "worker/trainer/generate/sample_clip.h"
#include "worker/trainer/generate/text_mode.h"
#include "worker/trainer/link/trainer_mode.h"

namespace evenstep::trainer {
namespace {

constexpr int kMostSide = 4096;  // frames, latent pixels, steps
constexpr int64_t kMostTokens = 1 << 20;

struct GenerateMode {
  std::string weights;
  std::string out;
  int frames = 16;
  int height = 16;
  int width = 16;
  int steps = 50;
  uint64_t seed = 0;
  bool untrained = false;
  TextMode text;  // what is of text alone
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
  if (mode.text.max_tokens < 0 || mode.text.max_tokens > kMostTokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max-tokens: ", mode.text.max_tokens, " is not in 0 to ", kMostTokens));
  }
  return ValidateChoice(mode.text.choice);
}

absl::Status GenerateClip(const GenerateMode& mode) {
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

absl::Status Generate(const GenerateMode& mode, const NamedModels& models) {
  EVENSTEP_ASSIGN_OR_RETURN(const bool is_video,
                            jobspec::IsVideoModel(mode.weights));
  if (is_video) return GenerateClip(mode);
  TextMode text = mode.text;
  text.weights = mode.weights;
  text.out = mode.out;
  text.choice.seed = mode.seed;
  return GenerateTextFile(text, models);
}

void AddClipFlags(GenerateMode* mode, ConfigTable* table) {
  table->Add("frames", "EVENSTEP_GENERATE_FRAMES", &mode->frames,
             "frames of the clip");
  table->Add("height", "EVENSTEP_GENERATE_HEIGHT", &mode->height,
             "its height in latent pixels");
  table->Add("width", "EVENSTEP_GENERATE_WIDTH", &mode->width,
             "its width in latent pixels");
  table->Add("steps", "EVENSTEP_GENERATE_STEPS", &mode->steps,
             "steps from noise to the clip");
  table->Add("untrained", "EVENSTEP_GENERATE_UNTRAINED", &mode->untrained,
             "take the values that the job began with");
}

void AddTextFlags(TextMode* text, ConfigTable* table) {
  table->Add("prompt-file", "EVENSTEP_GENERATE_PROMPT_FILE", &text->prompt_path,
             "file that holds the prompt");
  table->Add("tokenizer", "EVENSTEP_GENERATE_TOKENIZER", &text->tokenizer,
             "SentencePiece model; empty: that of the job");
  table->Add("logits", "EVENSTEP_GENERATE_LOGITS", &text->logits_path,
             "file that the prompt's scores are written to");
  table->Add("max-tokens", "EVENSTEP_GENERATE_MAX_TOKENS", &text->max_tokens,
             "tokens beside the prompt, at most");
  table->Add("chat", "EVENSTEP_GENERATE_CHAT", &text->chat,
             "the prompt is what a user says");
  table->Add("temperature", "EVENSTEP_GENERATE_TEMPERATURE",
             &text->choice.temperature, "0: the likeliest token");
  table->Add("top-k", "EVENSTEP_GENERATE_TOP_K", &text->choice.top_k,
             "of the likeliest so many; 0: of all");
  table->Add("top-p", "EVENSTEP_GENERATE_TOP_P", &text->choice.top_p,
             "of the likeliest that have this probability together");
}

}  // namespace

int GenerateMain(int argc, char** argv, const NamedModels& models) {
  GenerateMode mode;
  ConfigTable table("evenstep-trainer generate",
                    "Samples a clip or text from a trained model, for "
                    "`evenstep generate`.");
  table.Add("weights", "EVENSTEP_GENERATE_WEIGHTS", &mode.weights,
            "weights file of a job");
  table.Add("out", "EVENSTEP_GENERATE_OUT", &mode.out,
            "file that the picture or the text is written to");
  table.Add("seed", "EVENSTEP_GENERATE_SEED", &mode.seed,
            "seed of noise and choice");
  AddClipFlags(&mode, &table);
  AddTextFlags(&mode.text, &table);
  table.AddCheck([&] { return Validate(mode); });
  return RunMode(kGenerateWord, &table, argc, argv, [&] {
    at::set_num_threads(1);
    return Generate(mode, models);
  });
}

}  // namespace evenstep::trainer
