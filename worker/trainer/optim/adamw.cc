#include "worker/trainer/optim/adamw.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/trainer/model/device_kernels.h"
#include "worker/trainer/optim/update_by_ops.h"

namespace evenstep::trainer {
namespace {

template <typename T>
double SquareSum(const at::Tensor& x) {
  const T* values = x.const_data_ptr<T>();
  double sum = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return sum;
}

template <typename T>
void UpdateParameter(const UpdateFactors& f, const T* gradient, int64_t count,
                     T* mean, T* square, T* value) {
  const T scale = static_cast<T>(f.gradient_scale);
  const T beta1 = static_cast<T>(f.beta1);
  const T beta2 = static_cast<T>(f.beta2);
  const T rest1 = static_cast<T>(1.0 - f.beta1);
  const T rest2 = static_cast<T>(1.0 - f.beta2);
  const T decay = static_cast<T>(f.decay);
  const T step_size = static_cast<T>(f.step_size);
  const T correction = static_cast<T>(f.square_correction);
  const T epsilon = static_cast<T>(f.epsilon);
  for (int64_t i = 0; i < count; ++i) {
    const T g = gradient[i] * scale;
    mean[i] = beta1 * mean[i] + rest1 * g;
    square[i] = beta2 * square[i] + rest2 * g * g;
    value[i] =
        decay * value[i] -
        step_size * mean[i] / (std::sqrt(square[i] * correction) + epsilon);
  }
}

absl::StatusOr<double> GradientNorm(
    const std::vector<NamedParameter>& parameters, int64_t step) {
  double sum = 0;
  for (const NamedParameter& p : parameters) {
    const at::Tensor& gradient = p.value.grad();
    if (!gradient.defined() || !gradient.is_contiguous()) {
      return absl::InternalError(
          absl::StrCat(p.name, " has no dense gradient in step ", step));
    }
    if (!gradient.is_cpu()) {
      sum += SquareSumByOps(gradient);
      continue;
    }
    sum += gradient.scalar_type() == at::kDouble ? SquareSum<double>(gradient)
                                                 : SquareSum<float>(gradient);
  }
  if (!std::isfinite(sum)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the gradient of step ", step, " is not finite; nothing was updated"));
  }
  return std::sqrt(sum);
}

}  // namespace

AdamW::AdamW(std::vector<NamedParameter> parameters,
             const AdamWOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  at::NoGradGuard without_graph;
  for (const NamedParameter& p : parameters_) {
    states_.push_back({at::zeros_like(p.value), at::zeros_like(p.value)});
  }
}

absl::StatusOr<UpdateResult> AdamW::Update(int64_t step) {
  UpdateResult result;
  EVENSTEP_ASSIGN_OR_RETURN(result.gradient_norm,
                            GradientNorm(parameters_, step));
  result.learning_rate = LearningRate(options_.schedule, step);
  const double t = static_cast<double>(step + 1);
  UpdateFactors factors;
  if (options_.clip > 0 && result.gradient_norm > options_.clip) {
    factors.gradient_scale = options_.clip / result.gradient_norm;
  }
  factors.beta1 = options_.beta1;
  factors.beta2 = options_.beta2;
  factors.step_size =
      result.learning_rate / (1.0 - std::pow(options_.beta1, t));
  factors.square_correction = 1.0 / (1.0 - std::pow(options_.beta2, t));
  factors.epsilon = options_.epsilon;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& value = parameters_[i].value;
    factors.decay = value.dim() < 2
                        ? 1.0
                        : 1.0 - result.learning_rate * options_.weight_decay;
    if (!value.is_cpu()) {
      UpdateByOps(factors, value.grad(), states_[i].mean, states_[i].square,
                  value);
      continue;
    }
    const auto update = [&](auto zero) {
      using T = decltype(zero);
      UpdateParameter<T>(factors, value.grad().const_data_ptr<T>(),
                         value.numel(), states_[i].mean.mutable_data_ptr<T>(),
                         states_[i].square.mutable_data_ptr<T>(),
                         value.mutable_data_ptr<T>());
    };
    value.scalar_type() == at::kDouble ? update(double{}) : update(float{});
  }
  return result;
}

}  // namespace evenstep::trainer
