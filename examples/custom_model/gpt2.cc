#include "gpt2.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "evenstep/trainer/initial_values.h"
#include "evenstep/trainer/kernels.h"
#include "evenstep/trainer/model.h"
#include "evenstep/trainer/recompute.h"

// Shapes: T own tokens, W width, H heads, D dimension of a head, V vocabulary.

namespace custom_model {
namespace {

using evenstep::trainer::ForwardOptions;
using evenstep::trainer::LayerKind;
using evenstep::trainer::Model;
using evenstep::trainer::ModelRequest;
using evenstep::trainer::NamedParameter;
using evenstep::trainer::PackedShard;
using evenstep::trainer::SequenceAttention;
using evenstep::trainer::TextModel;

constexpr double kDeviation = 0.02;

struct Norm {
  at::Tensor weight;
  at::Tensor bias;
};

struct Layer {
  Norm attention_norm;
  at::Tensor qkv;
  at::Tensor attention_out;
  Norm mlp_norm;
  at::Tensor up;
  at::Tensor down;

  std::vector<at::Tensor> parameters() const {
    return {attention_norm.weight, attention_norm.bias, qkv, attention_out,
            mlp_norm.weight,       mlp_norm.bias,       up,  down};
  }
};

class Gpt2 : public TextModel {
 public:
  explicit Gpt2(const ModelRequest& request) : request_(request) {
    const int64_t width = request.width;
    tokens_ = AddMatrix("tokens.weight", request.vocab, width);
    positions_ = AddMatrix("positions.weight", request.max_length, width);
    for (int i = 0; i < request.layers; ++i) {
      const std::string prefix = absl::StrCat("layers.", i, ".");
      Layer& layer = layers_.emplace_back();
      layer.attention_norm = AddNorm(prefix + "attention_norm");
      layer.qkv = AddMatrix(prefix + "qkv.weight", 3 * width, width);
      layer.attention_out = AddMatrix(prefix + "out.weight", width, width);
      layer.mlp_norm = AddNorm(prefix + "mlp_norm");
      layer.up = AddMatrix(prefix + "up.weight", 4 * width, width);
      layer.down = AddMatrix(prefix + "down.weight", width, 4 * width);
    }
    final_norm_ = AddNorm("final_norm");
  }

  const std::vector<NamedParameter>& parameters() const override {
    return parameters_;
  }

  std::vector<LayerKind> layers() const override {
    return {{"decoder", request_.layers}};
  }

  at::Tensor Forward(const PackedShard& shard, SequenceAttention& attention,
                     const ForwardOptions& options) override {
    const at::Tensor targets_T = shard.targets_T.to(request_.device);
    return at::cross_entropy_loss(Logits(shard, attention, options), targets_T,
                                  {}, at::Reduction::Sum,
                                  evenstep::trainer::kIgnoredTarget);
  }

  int64_t Vocab() const override { return request_.vocab; }

  at::Tensor Logits(const PackedShard& shard, SequenceAttention& attention,
                    const ForwardOptions& options) override {
    const at::Tensor tokens_T = shard.tokens_T.to(request_.device);
    const at::Tensor positions_T = shard.positions_T.to(request_.device);
    at::Tensor x_TW = evenstep::trainer::Embed(tokens_, tokens_T) +
                      evenstep::trainer::Embed(positions_, positions_T);
    for (int i = 0; i < request_.layers; ++i) {
      const auto run = [this, i, &attention](const at::Tensor& input_TW) {
        return RunLayer(layers_[i], attention, input_TW);
      };
      x_TW = i < options.recompute_layers
                 ? evenstep::trainer::RunRecomputed(run, x_TW,
                                                    layers_[i].parameters())
                 : run(x_TW);
    }
    const at::Tensor logits_TV = at::linear(Normed(x_TW, final_norm_), tokens_);
    return request_.dtype == at::kBFloat16 ? logits_TV.to(at::kFloat)
                                           : logits_TV;
  }

 private:
  at::Tensor RunLayer(const Layer& layer, SequenceAttention& attention,
                      const at::Tensor& x_TW) const {
    const int64_t tokens = x_TW.size(0);
    const int64_t dim = request_.width / request_.heads;
    const std::vector<at::Tensor> qkv_THD =
        at::linear(Normed(x_TW, layer.attention_norm), layer.qkv)
            .view({tokens, 3, request_.heads, dim})
            .unbind(1);
    const at::Tensor out_THD = attention.Attend(qkv_THD[0], qkv_THD[1],
                                                qkv_THD[2], request_.attention);
    const at::Tensor middle_TW =
        x_TW + at::linear(out_THD.reshape({tokens, request_.width}),
                          layer.attention_out);
    const at::Tensor inner =
        at::gelu(at::linear(Normed(middle_TW, layer.mlp_norm), layer.up));
    return middle_TW + at::linear(inner, layer.down);
  }

  at::Tensor Normed(const at::Tensor& x_TW, const Norm& norm) const {
    return at::layer_norm(x_TW, {request_.width}, norm.weight, norm.bias);
  }

  at::Tensor AddMatrix(const std::string& name, int64_t rows, int64_t columns) {
    const at::Tensor value = at::empty({rows, columns}, request_.dtype);
    evenstep::trainer::FillNormal(request_.seed, name, kDeviation, value);
    return Add(name, value);
  }

  Norm AddNorm(const std::string& name) {
    const int64_t width = request_.width;
    return {Add(name + ".weight", at::ones({width}, request_.dtype)),
            Add(name + ".bias", at::zeros({width}, request_.dtype))};
  }

  at::Tensor Add(const std::string& name, const at::Tensor& value) {
    parameters_.push_back(
        {name, value.to(request_.device).requires_grad_(true)});
    return parameters_.back().value;
  }

  const ModelRequest request_;
  std::vector<NamedParameter> parameters_;
  at::Tensor tokens_;
  at::Tensor positions_;
  std::vector<Layer> layers_;
  Norm final_norm_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> MakeGpt2(const ModelRequest& request) {
  if (request.kv_heads != request.heads || request.patch_values > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("gpt2 is of text and has as many key and value heads as "
                     "heads: ",
                     request.kv_heads, " and ", request.heads));
  }
  return std::make_unique<Gpt2>(request);
}

}  // namespace custom_model
