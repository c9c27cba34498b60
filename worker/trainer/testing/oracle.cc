#include "worker/trainer/testing/oracle.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace evenstep::trainer::testing {
namespace {

at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return x * at::rsqrt(x.pow(2).mean(-1, true) + epsilon) * weight;
}

// x [L, N, D].
at::Tensor Turn(const at::Tensor& x, double theta) {
  const int64_t length = x.size(0);
  const int64_t dim = x.size(2);
  const at::Tensor frequency =
      at::pow(theta, at::arange(0, dim, 2, x.options()) / dim * -1.0);
  const at::Tensor half =
      at::arange(length, x.options()).unsqueeze(1) * frequency.unsqueeze(0);
  const at::Tensor angles = at::cat({half, half}, 1).unsqueeze(1);
  const at::Tensor turned =
      at::cat({-x.slice(2, dim / 2, dim), x.slice(2, 0, dim / 2)}, 2);
  return x * angles.cos() + turned * angles.sin();
}

at::Tensor Attention(const DecoderConfig& config, const Weights& weights,
                     const std::string& prefix, const at::Tensor& x) {
  const int64_t length = x.size(0);
  const int64_t dim = config.width / config.heads;
  const int64_t shared = config.heads / config.kv_heads;
  const auto project = [&](const char* name, int64_t heads) {
    return x.matmul(weights.at(prefix + name).t()).view({length, heads, dim});
  };
  const at::Tensor q =
      Turn(project("q_proj.weight", config.heads), config.rope_theta);
  const at::Tensor k =
      Turn(project("k_proj.weight", config.kv_heads), config.rope_theta)
          .repeat_interleave(shared, 1);
  const at::Tensor v =
      project("v_proj.weight", config.kv_heads).repeat_interleave(shared, 1);
  at::Tensor scores =
      at::einsum("qhd,khd->hqk", {q, k}) / std::sqrt(static_cast<double>(dim));
  if (config.attention == AttentionMask::kCausal) {
    const at::Tensor future =
        at::ones({length, length}, at::kBool).triu(/*diagonal=*/1);
    scores = scores.masked_fill(future, -INFINITY);
  }
  const at::Tensor out =
      at::einsum("hqk,khd->qhd", {at::softmax(scores, -1), v});
  return out.reshape({length, config.width})
      .matmul(weights.at(prefix + "o_proj.weight").t());
}

at::Tensor Mlp(const Weights& weights, const std::string& prefix,
               const at::Tensor& x) {
  const at::Tensor gate = x.matmul(weights.at(prefix + "gate_proj.weight").t());
  const at::Tensor up = x.matmul(weights.at(prefix + "up_proj.weight").t());
  return (gate * at::sigmoid(gate) * up)
      .matmul(weights.at(prefix + "down_proj.weight").t());
}

// Sum of the losses of one document.
at::Tensor DocumentLoss(const DecoderConfig& config, const Weights& weights,
                        const data::SampleTokens& sample) {
  const at::Tensor tokens =
      at::tensor(at::ArrayRef<int32_t>(sample.tokens)).to(at::kLong);
  at::Tensor x =
      weights.at("model.embed_tokens.weight").index_select(0, tokens);
  for (int i = 0; i < config.layers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    x = x + Attention(config, weights, layer + "self_attn.",
                      Norm(x, weights.at(layer + "input_layernorm.weight"),
                           config.norm_epsilon));
    x = x + Mlp(weights, layer + "mlp.",
                Norm(x, weights.at(layer + "post_attention_layernorm.weight"),
                     config.norm_epsilon));
  }
  x = Norm(x, weights.at("model.norm.weight"), config.norm_epsilon);
  const at::Tensor logits = x.matmul(weights.at("lm_head.weight").t());
  const at::Tensor log_probability = at::log_softmax(logits, -1);
  at::Tensor loss = at::zeros({}, x.options());
  for (size_t i = 0; i < sample.targets.size(); ++i) {
    if (sample.targets[i] == data::kIgnoredTarget) continue;
    loss = loss - log_probability[static_cast<int64_t>(i)][sample.targets[i]];
  }
  return loss;
}

}  // namespace

OracleResult RunOracle(const SampleLoss& loss,
                       const std::vector<NamedParameter>& parameters,
                       const std::vector<data::SampleTokens>& samples) {
  Weights weights;
  for (const NamedParameter& p : parameters) {
    weights[p.name] = p.value;
    at::Tensor(p.value).mutable_grad() = at::zeros_like(p.value);
  }
  OracleResult result;
  for (const data::SampleTokens& sample : samples) {
    for (int32_t target : sample.targets) {
      result.trained_tokens += target == data::kIgnoredTarget ? 0 : 1;
    }
  }
  at::Tensor sum = at::zeros({}, parameters.front().value.options());
  for (const data::SampleTokens& sample : samples) {
    sum = sum + loss(weights, sample);
  }
  const at::Tensor mean = sum / static_cast<double>(result.trained_tokens);
  torch::autograd::backward({mean});
  result.loss = mean.item().toDouble();
  return result;
}

OracleResult RunOracle(const DecoderConfig& config,
                       const std::vector<NamedParameter>& parameters,
                       const std::vector<data::SampleTokens>& samples) {
  const SampleLoss loss = [&config](const Weights& weights,
                                    const data::SampleTokens& sample) {
    return DocumentLoss(config, weights, sample);
  };
  return RunOracle(loss, parameters, samples);
}

std::vector<NamedParameter> CopyParameters(
    const std::vector<NamedParameter>& parameters) {
  std::vector<NamedParameter> copies;
  for (const NamedParameter& p : parameters) {
    const at::ScalarType type = p.value.scalar_type();
    const at::Tensor copy = p.value.detach().to(
        type == at::kBFloat16 ? at::kFloat : type, /*non_blocking=*/false,
        /*copy=*/true);
    copies.push_back({p.name, at::Tensor(copy).requires_grad_(true)});
  }
  return copies;
}

}  // namespace evenstep::trainer::testing
