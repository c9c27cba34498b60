#include "worker/trainer/model/decoder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/dataset.h"
#include "evenstep/trainer/initial_values.h"
#include "evenstep/trainer/kernels.h"
#include "evenstep/trainer/recompute.h"

// Shapes: T own tokens, W width, H query heads, G key and value heads, D
// dimension of a head, M width of the MLP, V vocabulary.

namespace evenstep::trainer {
namespace {

constexpr double kInitialDeviation = 0.02;
constexpr int64_t kSumReduction = 2;  // at::Reduction::Sum

struct DecoderLayer {
  at::Tensor input_norm;
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
  at::Tensor o;
  at::Tensor mlp_norm;
  at::Tensor gate;
  at::Tensor up;
  at::Tensor down;

  std::vector<at::Tensor> parameters() const {
    return {input_norm, q, k, v, o, mlp_norm, gate, up, down};
  }
};

class Decoder : public TextModel {
 public:
  explicit Decoder(const DecoderConfig& config);

  const std::vector<NamedParameter>& parameters() const override {
    return parameters_;
  }
  std::vector<LayerKind> layers() const override {
    return {{"decoder", config_.layers}};
  }
  int64_t Vocab() const override { return config_.vocab; }
  NextToken next_token() const override { return NextToken::kItselfAlone; }
  at::Tensor Forward(const PackedShard& shard, SequenceAttention& attention,
                     const ForwardOptions& options) override;
  at::Tensor Logits(const PackedShard& shard, SequenceAttention& attention,
                    const ForwardOptions& options) override;

 private:
  // What every layer of one forward pass shares.
  struct Pass {
    SequenceAttention* attention;
    RotaryTable rotary;
  };

  at::Tensor AddMatrix(const std::string& name, int64_t rows, int64_t columns,
                       double deviation);
  at::Tensor AddNorm(const std::string& name);
  at::Tensor Register(const std::string& name, at::Tensor value);
  DecoderLayer MakeLayer(int index);
  at::Tensor RunLayer(const DecoderLayer& layer, const Pass& pass,
                      const at::Tensor& x_TW) const;
  at::Tensor Attention(const DecoderLayer& layer, const Pass& pass,
                       const at::Tensor& x_TW) const;
  at::Tensor Mlp(const DecoderLayer& layer, const at::Tensor& x_TW) const;

  const DecoderConfig config_;
  const int64_t head_dim_;
  std::vector<NamedParameter> parameters_;
  at::Tensor embedding_;
  std::vector<DecoderLayer> layers_;
  at::Tensor final_norm_;
  at::Tensor head_;
};

Decoder::Decoder(const DecoderConfig& config)
    : config_(config), head_dim_(config.width / config.heads) {
  embedding_ = AddMatrix("model.embed_tokens.weight", config.vocab,
                         config.width, kInitialDeviation);
  for (int i = 0; i < config.layers; ++i) layers_.push_back(MakeLayer(i));
  final_norm_ = AddNorm("model.norm.weight");
  head_ = AddMatrix("lm_head.weight", config.vocab, config.width,
                    kInitialDeviation);
}

DecoderLayer Decoder::MakeLayer(int index) {
  const std::string prefix = absl::StrCat("model.layers.", index, ".");
  const int64_t kv_width = config_.kv_heads * head_dim_;
  const int64_t mlp_width = MlpWidth(config_);
  // What adds to the residual starts smaller, by the depth (GPT-2).
  const double residual = kInitialDeviation / std::sqrt(2.0 * config_.layers);
  DecoderLayer layer;
  layer.input_norm = AddNorm(prefix + "input_layernorm.weight");
  layer.q = AddMatrix(prefix + "self_attn.q_proj.weight", config_.width,
                      config_.width, kInitialDeviation);
  layer.k = AddMatrix(prefix + "self_attn.k_proj.weight", kv_width,
                      config_.width, kInitialDeviation);
  layer.v = AddMatrix(prefix + "self_attn.v_proj.weight", kv_width,
                      config_.width, kInitialDeviation);
  layer.o = AddMatrix(prefix + "self_attn.o_proj.weight", config_.width,
                      config_.width, residual);
  layer.mlp_norm = AddNorm(prefix + "post_attention_layernorm.weight");
  layer.gate = AddMatrix(prefix + "mlp.gate_proj.weight", mlp_width,
                         config_.width, kInitialDeviation);
  layer.up = AddMatrix(prefix + "mlp.up_proj.weight", mlp_width, config_.width,
                       kInitialDeviation);
  layer.down = AddMatrix(prefix + "mlp.down_proj.weight", config_.width,
                         mlp_width, residual);
  return layer;
}

at::Tensor Decoder::AddMatrix(const std::string& name, int64_t rows,
                              int64_t columns, double deviation) {
  at::Tensor value = at::empty({rows, columns}, config_.dtype);
  FillNormal(config_.seed, name, deviation, value);
  return Register(name, std::move(value));
}

at::Tensor Decoder::AddNorm(const std::string& name) {
  return Register(name, at::ones({config_.width}, config_.dtype));
}

at::Tensor Decoder::Register(const std::string& name, at::Tensor value) {
  value = value.to(config_.device).requires_grad_(true);
  parameters_.push_back({name, value});
  return value;
}

at::Tensor Decoder::Forward(const PackedShard& shard,
                            SequenceAttention& attention,
                            const ForwardOptions& options) {
  // To the device first of all: a copy later would wait for what is queued.
  const at::Tensor targets_T = shard.targets_T.to(config_.device);
  return at::cross_entropy_loss(Logits(shard, attention, options), targets_T,
                                {}, kSumReduction, data::kIgnoredTarget);
}

at::Tensor Decoder::Logits(const PackedShard& shard,
                           SequenceAttention& attention,
                           const ForwardOptions& options) {
  const at::Tensor tokens_T = shard.tokens_T.to(config_.device);
  const Pass pass{
      &attention,
      MakeRotaryTable(shard.positions_T.to(config_.device), head_dim_,
                      config_.rope_theta, config_.dtype)};
  at::Tensor x_TW = Embed(embedding_, tokens_T);
  for (int i = 0; i < config_.layers; ++i) {
    const DecoderLayer* layer = &layers_[i];
    if (i < options.recompute_layers) {
      // By value: the pass ends before backward begins.
      x_TW = RunRecomputed(
          [this, layer, pass](const at::Tensor& input_TW) {
            return RunLayer(*layer, pass, input_TW);
          },
          x_TW, layer->parameters());
    } else {
      x_TW = RunLayer(*layer, pass, x_TW);
    }
  }
  x_TW = RmsNorm(x_TW, final_norm_, config_.norm_epsilon);
  const at::Tensor logits_TV = at::linear(x_TW, head_);
  // A sum of many losses needs more digits than bfloat16 has.
  return config_.dtype == at::kBFloat16 ? logits_TV.to(at::kFloat) : logits_TV;
}

at::Tensor Decoder::RunLayer(const DecoderLayer& layer, const Pass& pass,
                             const at::Tensor& x_TW) const {
  const double epsilon = config_.norm_epsilon;
  const at::Tensor middle_TW = at::add(
      x_TW, Attention(layer, pass, RmsNorm(x_TW, layer.input_norm, epsilon)));
  return at::add(middle_TW,
                 Mlp(layer, RmsNorm(middle_TW, layer.mlp_norm, epsilon)));
}

at::Tensor Decoder::Attention(const DecoderLayer& layer, const Pass& pass,
                              const at::Tensor& x_TW) const {
  const int64_t tokens = x_TW.size(0);
  const at::Tensor q_THD =
      at::linear(x_TW, layer.q).view({tokens, config_.heads, head_dim_});
  const at::Tensor k_TGD =
      at::linear(x_TW, layer.k).view({tokens, config_.kv_heads, head_dim_});
  const at::Tensor v_TGD =
      at::linear(x_TW, layer.v).view({tokens, config_.kv_heads, head_dim_});
  const at::Tensor out_THD = pass.attention->Attend(Rotate(q_THD, pass.rotary),
                                                    Rotate(k_TGD, pass.rotary),
                                                    v_TGD, config_.attention);
  return at::linear(out_THD.reshape({tokens, config_.width}), layer.o);
}

at::Tensor Decoder::Mlp(const DecoderLayer& layer,
                        const at::Tensor& x_TW) const {
  return at::linear(
      SwiGlu(at::linear(x_TW, layer.gate), at::linear(x_TW, layer.up)),
      layer.down);
}

}  // namespace

int MlpWidth(const DecoderConfig& config) {
  if (config.mlp_width > 0) return config.mlp_width;
  const int exact = (8 * config.width + 2) / 3;
  return (exact + 31) / 32 * 32;
}

absl::Status ValidateDecoderConfig(const DecoderConfig& config) {
  if (config.layers < 1 || config.width < 1 || config.heads < 1 ||
      config.kv_heads < 1 || config.vocab < 1 || config.mlp_width < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model sizes must be at least 1: layers ", config.layers, ", width ",
        config.width, ", heads ", config.heads, ", kv_heads ", config.kv_heads,
        ", vocab ", config.vocab, ", mlp_width ", config.mlp_width));
  }
  if (config.width % config.heads != 0 ||
      config.width / config.heads % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("width ", config.width, " over ", config.heads,
                     " heads does not give heads of an even, whole dimension"));
  }
  if (config.heads % config.kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(config.heads, " heads are no multiple of ",
                     config.kv_heads, " kv_heads"));
  }
  if (config.dtype != at::kFloat && config.dtype != at::kDouble &&
      config.dtype != at::kBFloat16) {
    return absl::InvalidArgumentError(
        "parameters are float32, float64 or bfloat16");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TextModel>> MakeDecoder(
    const DecoderConfig& config) {
  EVENSTEP_RETURN_IF_ERROR(ValidateDecoderConfig(config));
  return std::make_unique<Decoder>(config);
}

}  // namespace evenstep::trainer
