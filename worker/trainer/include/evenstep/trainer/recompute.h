#ifndef EVENSTEP_TRAINER_RECOMPUTE_H_
#define EVENSTEP_TRAINER_RECOMPUTE_H_

// Runs a layer without keeping its activations: forward keeps the input alone,
// backward runs the layer again. Gradients are equal to the last bit, because
// the same operations run on the same values. Models call it for the layers
// that ForwardOptions names, and the engine checks the number of calls.
//
// WHAT HANGS THE PEERS: the layer's collectives run again in backward, so all
// ranks of a group must recompute the same layers.

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace evenstep::trainer {

using LayerFunction = std::function<at::Tensor(const at::Tensor& input)>;

// layer(input), as a node of the graph, on the input's device. `parameters` are
// the other tensors with a gradient that the layer reads: leaves, or what
// layers share; one that is left out gets no gradient. What the function refers
// to outlives the graph, not just the call of Forward.
at::Tensor RunRecomputed(LayerFunction layer, const at::Tensor& input,
                         const std::vector<at::Tensor>& parameters);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_TRAINER_RECOMPUTE_H_
