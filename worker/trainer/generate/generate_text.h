#ifndef EVENSTEP_WORKER_TRAINER_GENERATE_GENERATE_TEXT_H_
#define EVENSTEP_WORKER_TRAINER_GENERATE_GENERATE_TEXT_H_

// Goes on with a text, token by token, with a trained text model. A further
// token takes what the model says (NextToken): a pass over itself, or one over
// the whole text. One rank, no groups. Main thread only.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "evenstep/trainer/model.h"
#include "worker/trainer/generate/choose_token.h"

namespace evenstep::trainer {

struct TextRequest {
  std::vector<int32_t> prompt;  // at least one token
  int64_t max_tokens = 0;       // beside the prompt
  int64_t longest = 0;          // with the prompt; 0: no bound
  int32_t end_token = 0;        // ends the text
  int32_t num_tokens = 0;       // of the tokenizer: others are never chosen
  ChoiceOptions choice;
};

struct GeneratedText {
  std::vector<int32_t> tokens;  // after the prompt, without the end token
  bool ended = false;           // by the end token, within the bounds
};

// INVALID_ARGUMENT: an empty prompt or one above `longest`, a token outside the
// vocabulary, or numbers that make no sense. INTERNAL: the model's scores are
// of another shape than it says or neither float32 nor float64, or a pass that
// keeps keys and values does not attend once per layer. RESOURCE_EXHAUSTED:
// memory ran out.
absl::StatusOr<GeneratedText> GenerateText(const TextRequest& request,
                                           TextModel* model);

// [T, V]: the scores after every token of the prompt, computed at once, as in
// training: no cache. The same errors.
absl::StatusOr<at::Tensor> PromptLogits(const std::vector<int32_t>& prompt,
                                        TextModel* model);

// Attention of one document that grows token by token: keys and values of what
// stands already are kept, so that a further token costs one row. The model
// calls it layer by layer, as it calls any attention. The first pass takes
// several tokens, each later pass one; EndPass stands after each. Without
// autograd; one rank; one thread. Errors are thrown, as torch's are.

class CachedAttention : public SequenceAttention {
 public:
  // Room for `most_tokens`, the first pass's included. Layers of every kind
  // count.
  CachedAttention(int num_layers, int64_t most_tokens);

  at::Tensor Attend(const at::Tensor& q_THD, const at::Tensor& k_TGD,
                    const at::Tensor& v_TGD, AttentionMask mask) override;

  // The next call is of the first layer again. Throws unless every layer called
  // once since the last one: another's keys and values would be taken.
  void EndPass();

 private:
  struct Layer {
    at::Tensor k_SGD;  // the first num_tokens rows hold something
    at::Tensor v_SGD;
    int64_t num_tokens = 0;
  };
  void Keep(const at::Tensor& k_TGD, const at::Tensor& v_TGD, Layer* layer);

  const int64_t most_tokens_;
  std::vector<Layer> layers_;
  size_t next_layer_ = 0;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_GENERATE_GENERATE_TEXT_H_
