#ifndef EVENSTEP_WORKER_TRAINER_GENERATE_GENERATE_MODE_H_
#define EVENSTEP_WORKER_TRAINER_GENERATE_GENERATE_MODE_H_

// The trainer's process as a user of what was trained: from weights to an
// animated picture, or to text. Started by `evenstep generate`, which links no
// torch.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "evenstep/trainer/model_request.h"
#include "worker/trainer/generate/choose_token.h"

namespace evenstep::trainer {

// First word of the command line that asks for this mode.
inline constexpr char kGenerateWord[] = "generate";

// `argv[0]` is that word, `models` are those that the trainer was built with.
// Returns the exit code (link/failure.h); a failure is logged.
int GenerateMain(int argc, char** argv, const NamedModels& models);

// The text part of the generate mode: a prompt from a file, tokens, a model,
// and text into another file. Called by generate_mode.cc. Stateless.

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

#endif  // EVENSTEP_WORKER_TRAINER_GENERATE_GENERATE_MODE_H_
