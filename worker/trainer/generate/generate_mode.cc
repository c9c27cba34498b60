#include "worker/trainer/generate/generate_mode.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/config_table.h"
#include "base/status_macros.h"
#include "data/dataset.h"
#include "data/safetensors.h"
#include "data/text/tokenizer.h"
#include "jobspec/weights_model.h"
#include "nlohmann/json.hpp"
#include "worker/trainer/generate/animated_gif.h"
#include "worker/trainer/generate/generate_text.h"
#include "worker/trainer/generate/load_model.h"
#include "worker/trainer/generate/sample_clip.h"
#include "worker/trainer/link/trainer_mode.h"
#include "worker/trainer/model/catch_torch.h"

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

namespace {

constexpr int64_t kMaxPromptBytes = int64_t{1} << 26;

absl::StatusOr<std::unique_ptr<data::Tokenizer>> TokenizerOf(
    const TextMode& mode, const LoadedTextModel& loaded) {
  const std::string& path =
      mode.tokenizer.empty() ? loaded.tokenizer : mode.tokenizer;
  if (path.empty() && !loaded.knows_tokenizer &&
      loaded.model->Vocab() != data::kByteVocab) {
    return absl::FailedPreconditionError(
        absl::StrCat(mode.weights,
                     ": the weights do not say which tokenizer they were "
                     "trained with, and ",
                     loaded.model->Vocab(),
                     " tokens are not bytes; name its SentencePiece model with "
                     "--tokenizer"));
  }
  auto tokenizer = data::OpenTokenizer(path);
  if (tokenizer.ok() || !mode.tokenizer.empty() || path.empty()) {
    return tokenizer;
  }
  return absl::Status(
      tokenizer.status().code(),
      absl::StrCat("the job's tokenizer: ", tokenizer.status().message(),
                   "; name one with --tokenizer"));
}

// Parts are tokenized one by one, as those of a chat that was trained on.
absl::StatusOr<std::vector<int32_t>> PromptTokens(
    const TextMode& mode, const data::Tokenizer& tokenizer) {
  EVENSTEP_ASSIGN_OR_RETURN(const std::string prompt,
                            ReadWholeFile(mode.prompt_path, kMaxPromptBytes));
  std::vector<std::string> parts = {prompt};
  if (mode.chat) {
    parts = {"<|user|>\n", prompt + "\n", "<|assistant|>\n"};
  }
  std::vector<int32_t> tokens;
  for (const std::string& part : parts) {
    EVENSTEP_RETURN_IF_ERROR(tokenizer.Encode(part, &tokens));
  }
  return tokens;
}

// A token's text may depend on the one before it, so both texts are decoded
// from the beginning.
absl::StatusOr<std::string> TextAfter(const std::vector<int32_t>& prompt,
                                      const std::vector<int32_t>& tokens,
                                      const data::Tokenizer& tokenizer) {
  std::vector<int32_t> all = prompt;
  all.insert(all.end(), tokens.begin(), tokens.end());
  EVENSTEP_ASSIGN_OR_RETURN(const std::string before, tokenizer.Decode(prompt));
  EVENSTEP_ASSIGN_OR_RETURN(const std::string text, tokenizer.Decode(all));
  if (absl::StartsWith(text, before)) return text.substr(before.size());
  return tokenizer.Decode(tokens);
}

absl::Status WriteLogits(const std::string& path,
                         const std::vector<int32_t>& prompt, TextModel* model) {
  EVENSTEP_ASSIGN_OR_RETURN(const at::Tensor logits_TV,
                            PromptLogits(prompt, model));
  const std::vector<int64_t> tokens(prompt.begin(), prompt.end());
  const char* const dtype =
      logits_TV.scalar_type() == at::kDouble ? "F64" : "F32";
  return data::WriteSafetensors(
      path,
      {{"tokens",
        "I64",
        {static_cast<int64_t>(tokens.size())},
        {reinterpret_cast<const char*>(tokens.data()),
         tokens.size() * sizeof(int64_t)}},
       {"logits",
        dtype,
        logits_TV.sizes().vec(),
        {static_cast<const char*>(logits_TV.data_ptr()), logits_TV.nbytes()}}},
      {});
}

}  // namespace

absl::Status GenerateTextFile(const TextMode& mode, const NamedModels& models) {
  EVENSTEP_ASSIGN_OR_RETURN(const LoadedTextModel loaded,
                            LoadTextModel(mode.weights, models));
  EVENSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<data::Tokenizer> tokenizer,
                            TokenizerOf(mode, loaded));
  TextRequest request;
  EVENSTEP_ASSIGN_OR_RETURN(request.prompt, PromptTokens(mode, *tokenizer));
  request.max_tokens = mode.max_tokens;
  request.longest = loaded.longest;
  request.end_token = tokenizer->end_token();
  request.num_tokens = tokenizer->vocab();
  request.choice = mode.choice;
  EVENSTEP_ASSIGN_OR_RETURN(const GeneratedText text,
                            GenerateText(request, loaded.model.get()));
  if (!mode.logits_path.empty()) {
    EVENSTEP_RETURN_IF_ERROR(
        WriteLogits(mode.logits_path, request.prompt, loaded.model.get()));
  }
  EVENSTEP_ASSIGN_OR_RETURN(const std::string bytes,
                            TextAfter(request.prompt, text.tokens, *tokenizer));
  const nlohmann::json report = {
      {"prompt_tokens", request.prompt},
      {"tokens", text.tokens},
      {"finish_reason", text.ended ? "end" : "length"}};
  EVENSTEP_RETURN_IF_ERROR(
      WriteFileAtomically(mode.out + ".json", report.dump() + "\n"));
  return WriteFileAtomically(mode.out, bytes);
}

}  // namespace evenstep::trainer
