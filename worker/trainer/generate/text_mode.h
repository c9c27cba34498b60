#ifndef EVENSTEP_WORKER_TRAINER_GENERATE_TEXT_MODE_H_
#define EVENSTEP_WORKER_TRAINER_GENERATE_TEXT_MODE_H_

// The text part of the generate mode: a prompt from a file, tokens, a model,
// and text into another file. Called by generate_mode.cc. Stateless.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "worker/trainer/generate/choose_token.h"
#include "worker/trainer/model/named_models.h"

namespace evenstep::trainer {

struct TextMode {
  std::string weights;
  std::string prompt_path;  // the prompt's bytes as they are
  std::string out;          // the text's bytes; OUT.json says how it came about
  std::string tokenizer;    // empty: that of the weights' job
  std::string logits_path;  // empty: not wanted
  int64_t max_tokens = 200;
  // The prompt is what a user says, in the layout of data/text/jsonl.h.
  bool chat = false;
  ChoiceOptions choice;
};

// OUT.json: {"tokens": [...], "prompt_tokens": [...], "finish_reason": "end" or
// "length"}. The logits are a safetensors file of `tokens` (the prompt's) and
// `logits`, [tokens, vocabulary].
// `models` are those that the trainer was built with.
absl::Status GenerateTextFile(const TextMode& mode,
                              const NamedModels& models = {});

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_GENERATE_TEXT_MODE_H_
