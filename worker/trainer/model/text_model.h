#ifndef EVENSTEP_WORKER_TRAINER_MODEL_TEXT_MODEL_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_TEXT_MODEL_H_

// A model of text whose predictions can be asked for, too: what `evenstep
// generate` needs beside Model, of the trainer's own and of those that it was
// built with (named_models.h). Training needs no more than Model. Confined to
// the trainer's main thread.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "worker/trainer/model/model.h"

namespace evenstep::trainer {

// What it takes to know the scores after one more token of a text.
enum class NextToken {
  kWholeText,  // a pass over all of it
  // A pass over that token: the attention keeps keys and values of what stands
  // before it (CachedAttention in generate/generate_text.h). Every layer calls
  // Attend once, in the same order in every pass, with the causal mask, and
  // nothing else of the model sees another token.
  kItselfAlone,
};

class TextModel : public Model {
 public:
  // Tokens are below this.
  virtual int64_t Vocab() const = 0;
  // [T, V]: scores of every token after each own token, in float32 at least,
  // before the softmax. Targets count for nothing. Collective over the group of
  // the micro-batch.
  virtual at::Tensor Logits(const PackedShard& shard,
                            SequenceAttention& attention,
                            const ForwardOptions& options) = 0;
  virtual NextToken next_token() const { return NextToken::kWholeText; }
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_TEXT_MODEL_H_
