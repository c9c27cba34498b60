#include "worker/trainer/model/diffusion_transformer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sub.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "evenstep/trainer/initial_values.h"
#include "evenstep/trainer/kernels.h"
#include "evenstep/trainer/recompute.h"
#include "worker/trainer/model/decoder.h"
#include "worker/trainer/model/modulation.h"

// Shapes: T own tokens, W width, H heads, D dimension of a head, M width of the
// MLP, C values of a patch, R conditions (timesteps).

namespace evenstep::trainer {
namespace {

constexpr double kInitialDeviation = 0.02;
constexpr double kTimestepScale = 1000;
constexpr double kTimestepPeriod = 10000;

// What a layer adds to its tokens is shifted, scaled and gated twice: around
// attention and around the MLP.
enum Modulation {
  kAttentionShift,
  kAttentionScale,
  kAttentionGate,
  kMlpShift,
  kMlpScale,
  kMlpGate,
  kNumModulations,
};
// Of the last projection: shift and scale.
constexpr int kNumFinalModulations = 2;

struct ClipLayer {
  ClipAxis axis = ClipAxis::kSpace;
  at::Tensor table;  // [6, W], added to what all layers share
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
  at::Tensor o;
  at::Tensor gate;
  at::Tensor up;
  at::Tensor down;

  std::vector<at::Tensor> parameters() const {
    return {table, q, k, v, o, gate, up, down};
  }
};

class DiffusionTransformerModel : public DiffusionTransformer {
 public:
  explicit DiffusionTransformerModel(const DiffusionTransformerConfig& config);

  const std::vector<NamedParameter>& parameters() const override {
    return parameters_;
  }
  std::vector<LayerKind> layers() const override {
    return {{"spatial", config_.layers / 2}, {"temporal", config_.layers / 2}};
  }
  at::Tensor Forward(const PackedShard& shard, SequenceAttention& attention,
                     const ForwardOptions& options) override;
  at::Tensor Predict(const PackedShard& shard, SequenceAttention& attention,
                     const ForwardOptions& options) override;

 private:
  // What the layers of one axis share in one forward pass.
  struct AxisPass {
    RotaryTable rotary;
    at::Tensor condition_T;
  };
  struct Pass {
    ClipAttention* attention;
    AxisPass space;
    AxisPass time;
    at::Tensor shared_R6W;

    const AxisPass& Of(ClipAxis axis) const {
      return axis == ClipAxis::kSpace ? space : time;
    }
  };

  at::Tensor AddMatrix(const std::string& name, int64_t rows, int64_t columns,
                       double deviation);
  ClipLayer MakeLayer(int index);

  at::Tensor OnDevice(const at::Tensor& x) const {
    return x.to(config_.device, config_.dtype);
  }
  RotaryTable OnDevice(const RotaryTable& table) const {
    return {table.cos.to(config_.device), table.sin.to(config_.device)};
  }
  Pass MakePass(const PackedClips& clips, const at::Tensor& condition_RW,
                ClipAttention* attention) const;
  // Of a layer's own copy of the timesteps: [R, W].
  at::Tensor EmbedTimesteps(const std::vector<double>& timesteps) const;
  at::Tensor RunLayer(const ClipLayer& layer, const Pass& pass,
                      const at::Tensor& x_TW) const;
  at::Tensor Attention(const ClipLayer& layer, const Pass& pass,
                       const at::Tensor& x_TW) const;
  at::Tensor Mlp(const ClipLayer& layer, const at::Tensor& x_TW) const;
  at::Tensor Norm(const at::Tensor& x_TW) const {
    return RmsNorm(x_TW, ones_W_, config_.norm_epsilon);
  }

  const DiffusionTransformerConfig config_;
  const int64_t head_dim_;
  std::vector<NamedParameter> parameters_;
  at::Tensor ones_W_;  // the norm's own weight: modulation stands in its place
  at::Tensor patch_embedding_;
  at::Tensor timestep_first_;
  at::Tensor timestep_second_;
  at::Tensor modulation_;
  std::vector<ClipLayer> layers_;
  at::Tensor final_table_;
  at::Tensor final_;
};

DiffusionTransformerModel::DiffusionTransformerModel(
    const DiffusionTransformerConfig& config)
    : config_(config), head_dim_(config.width / config.heads) {
  const int64_t width = config.width;
  // Of the size that leaves a row of patches as large as it is.
  patch_embedding_ = AddMatrix("patch_embed.weight", width, config.channels,
                               1 / std::sqrt(1.0 * config.channels));
  timestep_first_ =
      AddMatrix("t_embed.0.weight", width, width, kInitialDeviation);
  timestep_second_ =
      AddMatrix("t_embed.2.weight", width, width, kInitialDeviation);
  modulation_ = AddMatrix("t_block.weight", kNumModulations * width, width,
                          kInitialDeviation);
  for (int i = 0; i < config.layers; ++i) layers_.push_back(MakeLayer(i));
  final_table_ =
      AddMatrix("final_layer.scale_shift_table", kNumFinalModulations, width,
                1 / std::sqrt(1.0 * config.width));
  final_ = AddMatrix("final_layer.weight", config.channels, width,
                     kInitialDeviation);
  ones_W_ = at::ones({width}, config.dtype).to(config.device);
}

ClipLayer DiffusionTransformerModel::MakeLayer(int index) {
  const std::string prefix = absl::StrCat("blocks.", index, ".");
  const int64_t width = config_.width;
  DecoderConfig sizes;
  sizes.width = config_.width;
  sizes.mlp_width = config_.mlp_width;
  const int64_t mlp_width = MlpWidth(sizes);
  // What adds to the residual starts smaller, by the depth (GPT-2).
  const double residual = kInitialDeviation / std::sqrt(2.0 * config_.layers);
  ClipLayer layer;
  layer.axis = index % 2 == 0 ? ClipAxis::kSpace : ClipAxis::kTime;
  layer.table = AddMatrix(prefix + "scale_shift_table", kNumModulations, width,
                          1 / std::sqrt(1.0 * config_.width));
  layer.q =
      AddMatrix(prefix + "attn.q_proj.weight", width, width, kInitialDeviation);
  layer.k =
      AddMatrix(prefix + "attn.k_proj.weight", width, width, kInitialDeviation);
  layer.v =
      AddMatrix(prefix + "attn.v_proj.weight", width, width, kInitialDeviation);
  layer.o = AddMatrix(prefix + "attn.o_proj.weight", width, width, residual);
  layer.gate = AddMatrix(prefix + "mlp.gate_proj.weight", mlp_width, width,
                         kInitialDeviation);
  layer.up = AddMatrix(prefix + "mlp.up_proj.weight", mlp_width, width,
                       kInitialDeviation);
  layer.down =
      AddMatrix(prefix + "mlp.down_proj.weight", width, mlp_width, residual);
  return layer;
}

at::Tensor DiffusionTransformerModel::AddMatrix(const std::string& name,
                                                int64_t rows, int64_t columns,
                                                double deviation) {
  at::Tensor value = at::empty({rows, columns}, config_.dtype);
  FillNormal(config_.seed, name, deviation, value);
  value = value.to(config_.device).requires_grad_(true);
  parameters_.push_back({name, value});
  return value;
}

// Cosines and sines of a scale of frequencies (Vaswani et al., 2017).
at::Tensor DiffusionTransformerModel::EmbedTimesteps(
    const std::vector<double>& timesteps) const {
  const auto count = static_cast<int64_t>(timesteps.size());
  const int64_t half = config_.width / 2;
  const at::Tensor waves = at::empty({count, config_.width}, at::kDouble);
  double* wave = waves.mutable_data_ptr<double>();
  for (const double timestep : timesteps) {
    for (int64_t i = 0; i < half; ++i) {
      const double frequency = std::pow(
          kTimestepPeriod, -static_cast<double>(i) / static_cast<double>(half));
      const double angle = kTimestepScale * timestep * frequency;
      wave[i] = std::cos(angle);
      wave[half + i] = std::sin(angle);
    }
    wave += config_.width;
  }
  const at::Tensor hidden_RW =
      at::silu(at::linear(OnDevice(waves), timestep_first_));
  return at::linear(hidden_RW, timestep_second_);
}

DiffusionTransformerModel::Pass DiffusionTransformerModel::MakePass(
    const PackedClips& clips, const at::Tensor& condition_RW,
    ClipAttention* attention) const {
  const double theta = config_.rope_theta;
  // Half of the angles turn with the row, half with the column.
  const RotaryTable row = MakeRotaryTable(clips.by_frame.row_T, head_dim_ / 2,
                                          theta, config_.dtype);
  const RotaryTable column = MakeRotaryTable(
      clips.by_frame.column_T, head_dim_ / 2, theta, config_.dtype);
  const RotaryTable space{at::cat({row.cos, column.cos}, 1),
                          at::cat({row.sin, column.sin}, 1)};
  Pass pass;
  pass.attention = attention;
  pass.space = {OnDevice(space), clips.by_frame.condition_T.to(config_.device)};
  pass.time = {OnDevice(MakeRotaryTable(clips.by_patch.frame_T, head_dim_,
                                        theta, config_.dtype)),
               clips.by_patch.condition_T.to(config_.device)};
  pass.shared_R6W = at::linear(at::silu(condition_RW), modulation_)
                        .unflatten(1, {kNumModulations, config_.width});
  return pass;
}

at::Tensor DiffusionTransformerModel::Predict(const PackedShard& shard,
                                              SequenceAttention& attention,
                                              const ForwardOptions& options) {
  TORCH_CHECK(shard.clips != nullptr && attention.clips() != nullptr,
              "a video model wants clips");
  const at::Tensor condition_RW = EmbedTimesteps(shard.clips->timesteps);
  const Pass pass = MakePass(*shard.clips, condition_RW, attention.clips());
  at::Tensor x_TW =
      at::linear(OnDevice(shard.clips->input_TC), patch_embedding_);
  for (int i = 0; i < config_.layers; ++i) {
    const ClipLayer* layer = &layers_[i];
    const int recomputed = layer->axis == ClipAxis::kSpace
                               ? options.recompute_layers
                               : options.recompute_temporal_layers;
    // Inside the layer, so that what is kept of a recomputed one is its input.
    const auto run = [this, layer, pass, i](const at::Tensor& input_TW) {
      const at::Tensor own_TW =
          i == 0 ? input_TW : pass.attention->Arrange(input_TW, layer->axis);
      return RunLayer(*layer, pass, own_TW);
    };
    if (i / 2 < recomputed) {
      std::vector<at::Tensor> read = layer->parameters();
      read.push_back(pass.shared_R6W);
      x_TW = RunRecomputed(run, x_TW, read);
    } else {
      x_TW = run(x_TW);
    }
  }
  const at::Tensor final_R2W =
      at::add(condition_RW.unsqueeze(1), final_table_.unsqueeze(0));
  x_TW = Modulate(Norm(x_TW), final_R2W.select(1, 1), final_R2W.select(1, 0),
                  pass.time.condition_T);
  return at::linear(x_TW, final_);
}

at::Tensor DiffusionTransformerModel::Forward(const PackedShard& shard,
                                              SequenceAttention& attention,
                                              const ForwardOptions& options) {
  const at::ScalarType type =
      config_.dtype == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor predicted_TC = Predict(shard, attention, options).to(type);
  const at::Tensor target_TC = shard.clips->target_TC.to(config_.device, type);
  const at::Tensor loss_T = at::sub(predicted_TC, target_TC).square().mean(1);
  return at::mul(loss_T, shard.clips->weight_T.to(config_.device, type)).sum();
}

at::Tensor DiffusionTransformerModel::RunLayer(const ClipLayer& layer,
                                               const Pass& pass,
                                               const at::Tensor& x_TW) const {
  const at::Tensor& condition_T = pass.Of(layer.axis).condition_T;
  const at::Tensor modulation_R6W =
      at::add(pass.shared_R6W, layer.table.unsqueeze(0));
  const auto of = [&](Modulation which) {
    return modulation_R6W.select(1, which);
  };
  const at::Tensor attended_TW =
      Attention(layer, pass,
                Modulate(Norm(x_TW), of(kAttentionScale), of(kAttentionShift),
                         condition_T));
  const at::Tensor middle_TW =
      GatedAdd(x_TW, attended_TW, of(kAttentionGate), condition_T);
  const at::Tensor added_TW =
      Mlp(layer,
          Modulate(Norm(middle_TW), of(kMlpScale), of(kMlpShift), condition_T));
  return GatedAdd(middle_TW, added_TW, of(kMlpGate), condition_T);
}

at::Tensor DiffusionTransformerModel::Attention(const ClipLayer& layer,
                                                const Pass& pass,
                                                const at::Tensor& x_TW) const {
  const RotaryTable& rotary = pass.Of(layer.axis).rotary;
  const auto project = [&](const at::Tensor& weight) {
    return at::linear(x_TW, weight).unflatten(1, {config_.heads, head_dim_});
  };
  const at::Tensor out_THD = pass.attention->Attend(
      Rotate(project(layer.q), rotary), Rotate(project(layer.k), rotary),
      project(layer.v), layer.axis);
  return at::linear(out_THD.flatten(1, 2), layer.o);
}

at::Tensor DiffusionTransformerModel::Mlp(const ClipLayer& layer,
                                          const at::Tensor& x_TW) const {
  return at::linear(
      SwiGlu(at::linear(x_TW, layer.gate), at::linear(x_TW, layer.up)),
      layer.down);
}

}  // namespace

absl::Status ValidateDiffusionTransformerConfig(
    const DiffusionTransformerConfig& config) {
  if (config.layers < 2 || config.layers % 2 != 0 || config.width < 1 ||
      config.heads < 1 || config.channels < 1 || config.mlp_width < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a video model has an even number of layers and sizes of at least 1: "
        "layers ",
        config.layers, ", width ", config.width, ", heads ", config.heads,
        ", channels ", config.channels, ", mlp_width ", config.mlp_width));
  }
  if (config.width % config.heads != 0 ||
      config.width / config.heads % 4 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "width ", config.width, " over ", config.heads,
        " heads does not give heads of a dimension that is a multiple of 4"));
  }
  if (config.dtype != at::kFloat && config.dtype != at::kDouble &&
      config.dtype != at::kBFloat16) {
    return absl::InvalidArgumentError(
        "parameters are float32, float64 or bfloat16");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DiffusionTransformer>> MakeDiffusionTransformer(
    const DiffusionTransformerConfig& config) {
  EVENSTEP_RETURN_IF_ERROR(ValidateDiffusionTransformerConfig(config));
  return std::make_unique<DiffusionTransformerModel>(config);
}

}  // namespace evenstep::trainer
