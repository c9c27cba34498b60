#include "worker/trainer/generate/text_mode.h"

#include <ATen/ATen.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "data/dataset.h"
#include "data/safetensors.h"
#include "data/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "worker/trainer/generate/generate_text.h"
#include "worker/trainer/generate/load_model.h"
#include "worker/trainer/model/catch_torch.h"

namespace evenstep::trainer {
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
