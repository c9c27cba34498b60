#ifndef EVENSTEP_WORKER_TRAINER_MODEL_RECOMPUTE_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_RECOMPUTE_H_

// Runs a layer without keeping its activations: forward keeps the input alone,
// backward runs the layer again. Gradients are equal to the last bit, because
// the same operations run on the same values. The layer's collectives run again
// too, so all ranks of a group must recompute the same layers. Models call it.

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace evenstep::trainer {

using LayerFunction = std::function<at::Tensor(const at::Tensor& input)>;

// layer(input), as a node of the graph. `parameters` are the other tensors with
// a gradient that the layer reads: leaves, or what layers share. What the
// function refers to outlives the graph.
at::Tensor RunRecomputed(LayerFunction layer, const at::Tensor& input,
                         const std::vector<at::Tensor>& parameters);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_RECOMPUTE_H_
