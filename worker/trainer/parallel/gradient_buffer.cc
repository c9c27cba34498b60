#include "worker/trainer/parallel/gradient_buffer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/trainer/model/device_kernels.h"

namespace evenstep::trainer {
namespace {

template <typename T>
int64_t CountNotFiniteValues(const at::Tensor& flat) {
  const T* values = flat.const_data_ptr<T>();
  int64_t count = 0;
  for (int64_t i = 0; i < flat.numel(); ++i) {
    count += std::isfinite(values[i]) ? 0 : 1;
  }
  return count;
}

template <typename T>
absl::Status Sum(const at::Tensor& flat, Communicator& world) {
  return world.AllReduceSum(
      absl::MakeSpan(flat.mutable_data_ptr<T>(), flat.numel()));
}

// Over this rank's run of elements.
template <typename T>
absl::Status SumOfShard(const at::Tensor& flat, Communicator& world) {
  const ElementRange own = ShardOf(flat.numel(), world.size(), world.rank());
  const at::Tensor sum = at::empty({own.size()}, flat.options());
  EVENSTEP_RETURN_IF_ERROR(world.ReduceScatterSum(
      absl::MakeConstSpan(flat.const_data_ptr<T>(), flat.numel()),
      ShardCounts(flat.numel(), world.size(), /*scale=*/1),
      absl::MakeSpan(sum.mutable_data_ptr<T>(), own.size())));
  flat.narrow(0, own.begin, own.size()).copy_(sum);
  return absl::OkStatus();
}

template <typename T>
absl::Status ReduceValues(const at::Tensor& flat, Communicator& world,
                          Sharding sharding) {
  return sharding == Sharding::kZero1 ? SumOfShard<T>(flat, world)
                                      : Sum<T>(flat, world);
}

at::ScalarType GradientType(at::ScalarType parameter_type) {
  return parameter_type == at::kBFloat16 ? at::kFloat : parameter_type;
}

}  // namespace

GradientBuffer::GradientBuffer(const std::vector<NamedParameter>& parameters)
    : parameters_(parameters) {
  int64_t count = 0;
  for (const NamedParameter& p : parameters_) count += p.value.numel();
  const at::ScalarType type =
      GradientType(parameters_.front().value.scalar_type());
  flat_ = at::zeros({count}, parameters_.front().value.options().dtype(type));
  int64_t start = 0;
  for (NamedParameter& p : parameters_) {
    if (type != p.value.scalar_type()) p.value.set_grad_dtype(type);
    p.value.mutable_grad() =
        flat_.narrow(0, start, p.value.numel()).view(p.value.sizes());
    start += p.value.numel();
  }
}

void GradientBuffer::Zero() { flat_.zero_(); }

int64_t GradientBuffer::CountNotFinite() const {
  if (!flat_.is_cpu()) return CountNotFiniteByOps(flat_);
  return flat_.scalar_type() == at::kDouble
             ? CountNotFiniteValues<double>(flat_)
             : CountNotFiniteValues<float>(flat_);
}

absl::Status GradientBuffer::CheckViews() const {
  const char* expected = static_cast<const char*>(flat_.const_data_ptr());
  for (const NamedParameter& p : parameters_) {
    if (!p.value.grad().defined() ||
        p.value.grad().const_data_ptr() != expected) {
      return absl::InternalError(absl::StrCat("the gradient of ", p.name,
                                              " is no longer in the buffer"));
    }
    expected += p.value.grad().nbytes();
  }
  return absl::OkStatus();
}

absl::Status GradientBuffer::Reduce(Communicator& world, Sharding sharding) {
  EVENSTEP_RETURN_IF_ERROR(CheckViews());
  return flat_.scalar_type() == at::kDouble
             ? ReduceValues<double>(flat_, world, sharding)
             : ReduceValues<float>(flat_, world, sharding);
}

}  // namespace evenstep::trainer
