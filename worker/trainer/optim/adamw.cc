#include "worker/trainer/optim/adamw.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/trainer/model/catch_torch.h"
#include "worker/trainer/model/device_kernels.h"
#include "worker/trainer/optim/update_by_ops.h"

namespace evenstep::trainer {
namespace {

template <typename T>
double SquareSum(const T* values, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return sum;
}

template <typename T>
void UpdateElements(const UpdateFactors& f, const at::Tensor& gradients,
                    const at::Tensor& means, const at::Tensor& squares,
                    const at::Tensor& values) {
  const int64_t count = values.numel();
  const T* gradient = gradients.const_data_ptr<T>();
  T* mean = means.mutable_data_ptr<T>();
  T* square = squares.mutable_data_ptr<T>();
  T* value = values.mutable_data_ptr<T>();
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

UpdateFactors MakeFactors(const AdamWOptions& options, int64_t step,
                          const UpdateResult& result) {
  const double t = static_cast<double>(step + 1);
  UpdateFactors factors;
  if (options.clip > 0 && result.gradient_norm > options.clip) {
    factors.gradient_scale = options.clip / result.gradient_norm;
  }
  factors.beta1 = options.beta1;
  factors.beta2 = options.beta2;
  factors.step_size = result.learning_rate / (1.0 - std::pow(options.beta1, t));
  factors.square_correction = 1.0 / (1.0 - std::pow(options.beta2, t));
  factors.epsilon = options.epsilon;
  return factors;
}

at::ScalarType StateType(const std::vector<NamedParameter>& parameters) {
  const at::ScalarType type = parameters.front().value.scalar_type();
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

at::Tensor Slice(const at::Tensor& x, const ParameterSlice& slice) {
  return x.view({-1}).narrow(0, slice.offset, slice.count);
}
at::Tensor ValueOf(const std::vector<NamedParameter>& parameters,
                   const ParameterSlice& slice) {
  return Slice(parameters[slice.parameter].value.detach(), slice);
}
at::Tensor GradientOf(const std::vector<NamedParameter>& parameters,
                      const ParameterSlice& slice) {
  return Slice(parameters[slice.parameter].value.grad(), slice);
}

double SquareSumOf(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble
             ? SquareSum(x.const_data_ptr<double>(), x.numel())
             : SquareSum(x.const_data_ptr<float>(), x.numel());
}

}  // namespace

AdamW::AdamW(std::vector<NamedParameter> parameters,
             const AdamWOptions& options, Communicator* sharded_over)
    : parameters_(std::move(parameters)),
      options_(options),
      sharded_over_(sharded_over),
      range_{0, CountElements(parameters_)} {
  at::NoGradGuard without_graph;
  if (sharded_over_ != nullptr) {
    range_ = ShardOf(range_.end, sharded_over_->size(), sharded_over_->rank());
    flat_ = MoveIntoOneTensor(parameters_);
  }
  slices_ = SlicesOf(parameters_, range_);
  const at::TensorOptions states = at::TensorOptions()
                                       .dtype(StateType(parameters_))
                                       .device(parameters_[0].value.device());
  mean_ = at::zeros({range_.size()}, states);
  square_ = at::zeros({range_.size()}, states);
  if (parameters_.front().value.scalar_type() != at::kBFloat16) return;
  master_ = at::empty({range_.size()}, states);
  for (const ParameterSlice& slice : slices_) {
    master_.narrow(0, slice.shard_offset, slice.count)
        .copy_(ValueOf(parameters_, slice));
  }
}

int64_t AdamW::state_bytes() const {
  const int64_t master = master_.defined() ? master_.nbytes() : 0;
  return static_cast<int64_t>(mean_.nbytes() + square_.nbytes()) + master;
}

at::Tensor AdamW::OwnSquareSum() const {
  at::Tensor sum = at::zeros({1}, mean_.options().dtype(at::kDouble));
  for (const ParameterSlice& slice : slices_) {
    const at::Tensor gradient = GradientOf(parameters_, slice);
    if (gradient.is_cpu()) {
      sum.add_(SquareSumOf(gradient));
    } else {
      sum.add_(SquareSumByOps(gradient));
    }
  }
  return sum;
}

absl::StatusOr<double> AdamW::GradientNorm(int64_t step) {
  for (const NamedParameter& p : parameters_) {
    if (p.value.grad().defined() && p.value.grad().is_contiguous()) continue;
    return absl::InternalError(
        absl::StrCat(p.name, " has no dense gradient in step ", step));
  }
  const at::Tensor total = OwnSquareSum();
  if (sharded_over_ != nullptr) {
    EVENSTEP_RETURN_IF_ERROR(sharded_over_->AllReduceSum(
        absl::MakeSpan(total.mutable_data_ptr<double>(), 1)));
  }
  const double sum = total.item().toDouble();
  if (!std::isfinite(sum)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the gradient of step ", step, " is not finite; nothing was updated"));
  }
  return std::sqrt(sum);
}

absl::StatusOr<UpdateResult> AdamW::Update(int64_t step) {
  UpdateResult result;
  EVENSTEP_RETURN_IF_ERROR(
      CatchTorch("an update", [&] { return UpdateAll(step, &result); }));
  return result;
}

absl::Status AdamW::UpdateAll(int64_t step, UpdateResult* result) {
  EVENSTEP_ASSIGN_OR_RETURN(result->gradient_norm, GradientNorm(step));
  result->learning_rate = LearningRate(options_.schedule, step);
  UpdateFactors factors = MakeFactors(options_, step, *result);
  parameters_whole_ = false;
  for (const ParameterSlice& slice : slices_) {
    const bool decays = parameters_[slice.parameter].value.dim() >= 2;
    factors.decay =
        decays ? 1.0 - result->learning_rate * options_.weight_decay : 1.0;
    UpdateSlice(factors, slice);
  }
  if (sharded_over_ != nullptr) EVENSTEP_RETURN_IF_ERROR(GatherParameters());
  parameters_whole_ = true;
  return absl::OkStatus();
}

void AdamW::UpdateSlice(const UpdateFactors& factors,
                        const ParameterSlice& slice) {
  at::NoGradGuard without_graph;
  const auto of_shard = [&slice](const at::Tensor& x) {
    return x.narrow(0, slice.shard_offset, slice.count);
  };
  const at::Tensor value = ValueOf(parameters_, slice);
  const at::Tensor gradient = GradientOf(parameters_, slice);
  const at::Tensor mean = of_shard(mean_);
  const at::Tensor square = of_shard(square_);
  const at::Tensor updated = master_.defined() ? of_shard(master_) : value;
  if (!value.is_cpu()) {
    UpdateByOps(factors, gradient, mean, square, updated);
  } else if (mean.scalar_type() == at::kDouble) {
    UpdateElements<double>(factors, gradient, mean, square, updated);
  } else {
    UpdateElements<float>(factors, gradient, mean, square, updated);
  }
  if (master_.defined()) value.copy_(updated);
}

// Own elements are sent from a copy: buffers of a collective do not overlap.
absl::Status AdamW::GatherParameters() {
  const at::Tensor own = flat_.narrow(0, range_.begin, range_.size()).clone();
  return sharded_over_->AllGatherv(
      own.const_data_ptr(), flat_.mutable_data_ptr(),
      ShardCounts(flat_.numel(), sharded_over_->size(), flat_.element_size()));
}

double LearningRate(const Schedule& schedule, int64_t step) {
  if (step < schedule.warmup_steps) {
    return schedule.peak * static_cast<double>(step + 1) /
           static_cast<double>(schedule.warmup_steps);
  }
  const double span = static_cast<double>(
      std::max<int64_t>(1, schedule.total_steps - 1 - schedule.warmup_steps));
  const double progress =
      std::min(1.0, static_cast<double>(step - schedule.warmup_steps) / span);
  const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return schedule.peak *
         (schedule.final_share + (1.0 - schedule.final_share) * cosine);
}

}  // namespace evenstep::trainer
