#ifndef EVENSTEP_TRAINER_MODEL_H_
#define EVENSTEP_TRAINER_MODEL_H_

// What the engine asks of a model: parameters by name, layers by kind, and a
// forward pass over this rank's tokens of a packed micro-batch. Everything
// works on own tokens only, except attention, which the model leaves to
// SequenceAttention, so that a model knows nothing of ranks.
//
// Threads: a model is used by one thread, which also runs its backward.
// Tensors: a PackedShard's are on the CPU, in types of their own
// (packed_shard.h). Parameters, and all that passes through SequenceAttention,
// are on the job's device in the job's type (`device` and `dtype` of
// model_request.h).
// Errors: a model throws, for example by TORCH_CHECK. The job then fails with
// the exception's message.
//
// WHAT HANGS THE PEERS: the calls of SequenceAttention and ClipAttention are
// collective, forward and backward. A rank waits in its n-th call until every
// rank of the group has made its n-th call. Therefore, on all ranks of a group:
//   - MAKE THE SAME CALLS IN THE SAME ORDER, with the same heads, widths and
//     masks. Never skip one because this rank has no trained tokens.
//   - RECOMPUTE THE SAME LAYERS: the first n that ForwardOptions asks for.
//   - LET THE LOSS DEPEND ON EVERY CALL'S RESULT. A result that is detached, or
//     a loss of at::zeros({}) where there are no targets, has no backward, and
//     the peers wait for it.
// A rank that waits longer than the job's `timeouts.collective` ends the job
// with the collective that it waited in.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "evenstep/trainer/packed_shard.h"

namespace evenstep::trainer {

// Leaf tensor that requires a gradient, on the job's device in the job's type.
// The tensor shares storage with the model: the optimizer writes into it. Names
// are those in the file of weights.
struct NamedParameter {
  std::string name;
  at::Tensor value;
};

struct LayerKind {
  std::string name;
  int count = 0;
};

// What a token sees of its own document: itself and what stands before it, or
// all of it.
enum class AttentionMask { kCausal, kFull };

// What a layer of a video model attends over: the patches of a frame, or the
// frames of a patch.
enum class ClipAxis { kSpace, kTime };

// Attention within each clip of the micro-batch, along one of its axes. Shapes
// as below. Everything is differentiable and COLLECTIVE OVER THE GROUP.
class ClipAttention {
 public:
  virtual ~ClipAttention() = default;
  // Own tokens [T, W] from the order of the other axis to that of `axis`
  // (packed_shard.h).
  virtual at::Tensor Arrange(const at::Tensor& x_TW, ClipAxis axis) = 0;
  // Full attention over tokens in the order of `axis`, with as many heads of
  // keys and values as of queries.
  virtual at::Tensor Attend(const at::Tensor& q_THD, const at::Tensor& k_THD,
                            const at::Tensor& v_THD, ClipAxis axis) = 0;
};

// Attention within each document of the micro-batch. Shapes: T own tokens, H
// query heads, G key and value heads, D dimension of a head.
class SequenceAttention {
 public:
  virtual ~SequenceAttention() = default;
  // [T, H, D], [T, G, D], [T, G, D] to [T, H, D], with scale 1 / sqrt(D);
  // differentiable. COLLECTIVE OVER THE GROUP.
  virtual at::Tensor Attend(const at::Tensor& q_THD, const at::Tensor& k_TGD,
                            const at::Tensor& v_TGD, AttentionMask mask) = 0;
  // Null unless the micro-batch is of video.
  virtual ClipAttention* clips() { return nullptr; }
};

struct ForwardOptions {
  // The first n layers keep no activations and run again in backward, by
  // RunRecomputed (recompute.h); of a video model, the first n spatial and the
  // first m temporal ones. Memory is planned with these numbers: a training
  // step in which fewer layers ran through RunRecomputed fails.
  int recompute_layers = 0;
  int recompute_temporal_layers = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  // Same order and values on all ranks.
  virtual const std::vector<NamedParameter>& parameters() const = 0;
  virtual std::vector<LayerKind> layers() const = 0;
  // The sum of the losses of this rank's trained tokens: a scalar on the job's
  // device, in float32 at least, which carries a graph also where it is 0. The
  // engine divides by the step's tokens on all ranks. `attention` outlives the
  // graph.
  virtual at::Tensor Forward(const PackedShard& shard,
                             SequenceAttention& attention,
                             const ForwardOptions& options) = 0;
};

// What it takes to know the scores after one more token of a text.
enum class NextToken {
  kWholeText,  // a pass over all of it
  // A pass over that token: keys and values of what stands before it are kept.
  // Every layer calls Attend once, in the same order in every pass, with the
  // causal mask, and nothing else of the model sees another token.
  kItselfAlone,
};

// A model of text whose predictions can be asked for, too: what `evenstep
// generate` needs beside Model. Training needs no more than Model.
class TextModel : public Model {
 public:
  // Tokens are below this.
  virtual int64_t Vocab() const = 0;
  // [T, V]: scores of every token after each own token, on the job's device, in
  // float32 at least, before the softmax. Targets count for nothing.
  virtual at::Tensor Logits(const PackedShard& shard,
                            SequenceAttention& attention,
                            const ForwardOptions& options) = 0;
  virtual NextToken next_token() const { return NextToken::kWholeText; }
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_TRAINER_MODEL_H_
