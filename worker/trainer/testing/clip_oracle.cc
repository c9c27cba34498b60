#include "worker/trainer/testing/clip_oracle.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "worker/trainer/model/sample_random.h"

// Shapes: F frames, P patches of a frame, W width, H heads, D dimension of a
// head, C values of a patch.

namespace evenstep::trainer::testing {
namespace {

using Weights = std::map<std::string, at::Tensor>;

at::Tensor Norm(const at::Tensor& x, double epsilon) {
  return x / (x.square().mean(-1, /*keepdim=*/true) + epsilon).sqrt();
}

at::Tensor Silu(const at::Tensor& x) { return x * at::sigmoid(x); }

// Angles of positions, `count` of them a position.
at::Tensor Angles(const at::Tensor& positions, int64_t count, double theta) {
  const at::Tensor exponents =
      at::arange(count, at::kDouble) / static_cast<double>(count);
  return positions.to(at::kDouble).unsqueeze(-1) * at::pow(theta, -exponents);
}

// x [..., H, D], angles [..., D / 2].
at::Tensor Turn(const at::Tensor& x, const at::Tensor& angles) {
  const int64_t half = x.size(-1) / 2;
  const at::Tensor a = x.narrow(-1, 0, half);
  const at::Tensor b = x.narrow(-1, half, half);
  const at::Tensor cos = angles.cos().unsqueeze(-2);
  const at::Tensor sin = angles.sin().unsqueeze(-2);
  return at::cat({a * cos - b * sin, b * cos + a * sin}, -1);
}

at::Tensor Embed(const DiffusionTransformerConfig& config,
                 const Weights& weights, double timestep) {
  const at::Tensor angles = Angles(at::full({}, 1000 * timestep, at::kDouble),
                                   config.width / 2, 10000.0);
  const at::Tensor waves = at::cat({angles.cos(), angles.sin()}, -1);
  return Silu(waves.matmul(weights.at("t_embed.0.weight").t()))
      .matmul(weights.at("t_embed.2.weight").t());
}

struct Grid {
  at::Tensor space_angles;  // [1, P, D / 2]
  at::Tensor time_angles;   // [F, 1, D / 2]
};

// [F, P, W] within every frame, or across the frames of every patch.
at::Tensor Attention(const DiffusionTransformerConfig& config,
                     const Weights& weights, const std::string& prefix,
                     const at::Tensor& x, const Grid& grid, bool spatial) {
  const int64_t dim = config.width / config.heads;
  const auto project = [&](const std::string& name) {
    return x.matmul(weights.at(prefix + name).t())
        .unflatten(-1, {config.heads, dim});
  };
  const at::Tensor& angles = spatial ? grid.space_angles : grid.time_angles;
  const at::Tensor q = Turn(project("q_proj.weight"), angles);
  const at::Tensor k = Turn(project("k_proj.weight"), angles);
  const at::Tensor v = project("v_proj.weight");
  const double scale = 1 / std::sqrt(static_cast<double>(dim));
  const at::Tensor scores =
      at::einsum(spatial ? "fqhd,fkhd->fhqk" : "qphd,kphd->phqk", {q, k}) *
      scale;
  const at::Tensor out =
      at::einsum(spatial ? "fhqk,fkhd->fqhd" : "phqk,kphd->qphd",
                 {at::softmax(scores, -1), v});
  return out.flatten(-2, -1).matmul(weights.at(prefix + "o_proj.weight").t());
}

at::Tensor Mlp(const Weights& weights, const std::string& prefix,
               const at::Tensor& x) {
  return (Silu(x.matmul(weights.at(prefix + "gate_proj.weight").t())) *
          x.matmul(weights.at(prefix + "up_proj.weight").t()))
      .matmul(weights.at(prefix + "down_proj.weight").t());
}

// [F, 1, W] from one condition a frame.
at::Tensor ByFrame(const at::Tensor& given, const at::Tensor& noised,
                   int64_t given_frames, int64_t frames) {
  std::vector<at::Tensor> rows;
  for (int64_t f = 0; f < frames; ++f) {
    rows.push_back(f < given_frames ? given : noised);
  }
  return at::stack(rows).unsqueeze(1);
}

Grid MakeGrid(const DiffusionTransformerConfig& config,
              const data::ClipShape& shape) {
  const int64_t dim = config.width / config.heads;
  const at::Tensor patch = at::arange(shape.patches(), at::kLong);
  const at::Tensor row = at::floor_divide(patch, shape.width);
  const at::Tensor column = at::remainder(patch, shape.width);
  return {
      at::cat({Angles(row, dim / 4, config.rope_theta),
               Angles(column, dim / 4, config.rope_theta)},
              -1)
          .unsqueeze(0),
      Angles(at::arange(shape.frames, at::kLong), dim / 2, config.rope_theta)
          .unsqueeze(1)};
}

// Sum of the losses of one clip.
at::Tensor ClipLoss(const DiffusionTransformerConfig& config,
                    const Weights& weights, const data::SampleTokens& sample,
                    const SampleRandom& random) {
  const data::Clip& clip = *sample.clip;
  const int64_t frames = clip.shape.frames;
  const int64_t patches = clip.shape.patches();
  const at::Tensor x0 = at::tensor(at::ArrayRef<float>(clip.values))
                            .to(at::kDouble)
                            .view({frames, patches, clip.channels});
  const at::Tensor noise = at::zeros_like(x0);
  for (int64_t f = 0; f < frames; ++f) {
    for (int64_t p = 0; p < patches; ++p) {
      for (int64_t c = 0; c < clip.channels; ++c) {
        noise[f][p][c].fill_(random.Noise(f * patches + p, c));
      }
    }
  }
  const double t = random.Timestep();
  const at::Tensor is_noised =
      (at::arange(frames, at::kLong) >= sample.given_frames)
          .to(at::kDouble)
          .view({frames, 1, 1});
  const at::Tensor noised =
      is_noised * ((1 - t) * x0 + t * noise) + (1 - is_noised) * x0;
  const at::Tensor at_0 = Embed(config, weights, 0);
  const at::Tensor at_t = Embed(config, weights, t);
  const auto condition = [&](const at::Tensor& given, const at::Tensor& rest) {
    return ByFrame(given, rest, sample.given_frames, frames);
  };
  const at::Tensor block = weights.at("t_block.weight");
  const at::Tensor shared =
      condition(Silu(at_0).matmul(block.t()), Silu(at_t).matmul(block.t()))
          .unflatten(-1, {6, config.width});  // [F, 1, 6, W]
  const Grid grid = MakeGrid(config, clip.shape);
  at::Tensor x = noised.matmul(weights.at("patch_embed.weight").t());
  for (int i = 0; i < config.layers; ++i) {
    const std::string layer = absl::StrCat("blocks.", i, ".");
    const at::Tensor table = shared + weights.at(layer + "scale_shift_table");
    const auto part = [&](int64_t which) { return table.select(2, which); };
    const at::Tensor attended =
        Attention(config, weights, layer + "attn.",
                  Norm(x, config.norm_epsilon) * (1 + part(1)) + part(0), grid,
                  /*spatial=*/i % 2 == 0);
    x = x + part(2) * attended;
    x = x +
        part(5) * Mlp(weights, layer + "mlp.",
                      Norm(x, config.norm_epsilon) * (1 + part(4)) + part(3));
  }
  const at::Tensor last = condition(at_0, at_t).unsqueeze(2) +
                          weights.at("final_layer.scale_shift_table");
  x = Norm(x, config.norm_epsilon) * (1 + last.select(2, 1)) +
      last.select(2, 0);
  const at::Tensor predicted = x.matmul(weights.at("final_layer.weight").t());
  return ((predicted - (noise - x0)).square().mean(-1, /*keepdim=*/true) *
          is_noised)
      .sum();
}

}  // namespace

OracleResult RunClipOracle(const DiffusionTransformerConfig& config,
                           const std::vector<NamedParameter>& parameters,
                           const std::vector<data::SampleTokens>& samples,
                           const std::vector<int64_t>& sample_ids,
                           uint64_t seed) {
  Weights weights;
  for (const NamedParameter& p : parameters) {
    weights[p.name] = p.value.to(at::kDouble);
    at::Tensor(p.value).mutable_grad() = at::zeros_like(p.value);
  }
  OracleResult result;
  at::Tensor sum = at::zeros({}, at::TensorOptions().dtype(at::kDouble));
  for (size_t i = 0; i < samples.size(); ++i) {
    const data::ClipShape& shape = samples[i].clip->shape;
    result.trained_tokens +=
        (shape.frames - samples[i].given_frames) * shape.patches();
    sum = sum + ClipLoss(config, weights, samples[i],
                         SampleRandom(seed, sample_ids[i]));
  }
  const at::Tensor loss = sum / static_cast<double>(result.trained_tokens);
  torch::autograd::backward({loss});
  result.loss = loss.item().toDouble();
  return result;
}

}  // namespace evenstep::trainer::testing
