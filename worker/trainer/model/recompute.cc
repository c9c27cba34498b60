#include "evenstep/trainer/recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <cstdint>
#include <utility>

#include "worker/trainer/model/recompute_count.h"

namespace evenstep::trainer {
namespace {

using torch::autograd::variable_list;

thread_local int64_t num_recomputed_layers = 0;

class RecomputeNode : public torch::autograd::Node {
 public:
  RecomputeNode(LayerFunction layer, const at::Tensor& input,
                const std::vector<at::Tensor>& parameters)
      : layer_(std::move(layer)),
        input_(input, /*is_output=*/false),
        input_needs_gradient_(input.requires_grad()),
        parameters_(parameters) {}

  std::string name() const override { return "RecomputeNode"; }

  variable_list apply(variable_list&& gradients) override {
    at::AutoGradMode with_graph(true);
    const at::Tensor input =
        input_.unpack().detach().requires_grad_(input_needs_gradient_);
    const at::Tensor output = layer_(input);
    variable_list leaves = parameters_;
    if (input_needs_gradient_) leaves.insert(leaves.begin(), input);
    variable_list result =
        torch::autograd::grad({output}, leaves, {gradients[0]}, std::nullopt,
                              /*create_graph=*/false, /*allow_unused=*/true);
    if (!input_needs_gradient_) result.insert(result.begin(), at::Tensor());
    return result;
  }

  void release_variables() override { input_.reset_data(); }

 private:
  const LayerFunction layer_;
  torch::autograd::SavedVariable input_;
  const bool input_needs_gradient_;
  const std::vector<at::Tensor> parameters_;
};

}  // namespace

int64_t NumRecomputedLayers() { return num_recomputed_layers; }

at::Tensor RunRecomputed(LayerFunction layer, const at::Tensor& input,
                         const std::vector<at::Tensor>& parameters) {
  at::Tensor output;
  {
    at::NoGradGuard without_graph;
    output = layer(input);
  }
  if (!at::GradMode::is_enabled()) return output;
  ++num_recomputed_layers;
  auto node =
      std::make_shared<RecomputeNode>(std::move(layer), input, parameters);
  node->set_next_edges(torch::autograd::collect_next_edges(input, parameters));
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace evenstep::trainer
