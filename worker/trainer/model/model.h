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

// What a layer of a video model attends over: the patches of a frame, or the
// frames of a patch.
enum class ClipAxis { kSpace, kTime };

// Attention within each clip of the micro-batch, along one of its axes. Shapes
// as below. Everything is differentiable and collective over the group.
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
  // [T, H, D], [T, G, D], [T, G, D] to [T, H, D]; differentiable. Collective
  // over the group of the micro-batch.
  virtual at::Tensor Attend(const at::Tensor& q_THD, const at::Tensor& k_TGD,
                            const at::Tensor& v_TGD, AttentionMask mask) = 0;
  // Null unless the micro-batch is of video.
  virtual ClipAttention* clips() { return nullptr; }
};

struct ForwardOptions {
  // The first n layers keep no activations and run again in backward; of a
  // video model, the first n spatial and the first m temporal ones.
  int recompute_layers = 0;
  int recompute_temporal_layers = 0;
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
