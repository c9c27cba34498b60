#ifndef EVENSTEP_WORKER_TRAINER_MODEL_MODEL_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_MODEL_H_

// What the engine asks of a model: parameters by name, layers by kind, and a
// forward pass over this rank's tokens of a packed micro-batch. Everything
// works on own tokens only, except attention, which the model leaves to
// SequenceAttention, so that a model knows nothing of ranks. Confined to the
// trainer's main thread.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "worker/trainer/model/packed_shard.h"

namespace evenstep::trainer {

// Leaf tensor that requires a gradient. The tensor shares storage with the
// model; names are those of Hugging Face's Llama for the 1D decoder.
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

// Attention within each document of the micro-batch. Shapes: T own tokens, H
// query heads, G key and value heads, D dimension of a head.
class SequenceAttention {
 public:
  virtual ~SequenceAttention() = default;
  // [T, H, D], [T, G, D], [T, G, D] to [T, H, D]; differentiable. Collective
  // over the group of the micro-batch.
  virtual at::Tensor Attend(const at::Tensor& q_THD, const at::Tensor& k_TGD,
                            const at::Tensor& v_TGD, AttentionMask mask) = 0;
};

struct ForwardOptions {
  // The first n layers keep no activations and run again in backward.
  int recompute_layers = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  // Same order on all ranks.
  virtual const std::vector<NamedParameter>& parameters() const = 0;
  virtual std::vector<LayerKind> layers() const = 0;
  // The sum of the losses of this rank's trained tokens: a scalar that carries
  // a graph, 0 if there are none. `attention` outlives the graph.
  virtual at::Tensor Forward(const PackedShard& shard,
                             SequenceAttention& attention,
                             const ForwardOptions& options) = 0;
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_MODEL_H_
