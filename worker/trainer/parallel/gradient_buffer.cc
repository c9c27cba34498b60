#include "worker/trainer/parallel/gradient_buffer.h"

#include <ATen/ops/zeros.h>

#include <cmath>

#include "absl/strings/str_cat.h"
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

}  // namespace

GradientBuffer::GradientBuffer(const std::vector<NamedParameter>& parameters)
    : parameters_(parameters) {
  int64_t count = 0;
  for (const NamedParameter& p : parameters_) count += p.value.numel();
  flat_ = at::zeros({count}, parameters_.front().value.options());
  int64_t start = 0;
  for (NamedParameter& p : parameters_) {
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

absl::Status GradientBuffer::AllReduce(Communicator& world) {
  const char* expected = static_cast<const char*>(flat_.const_data_ptr());
  for (const NamedParameter& p : parameters_) {
    if (!p.value.grad().defined() ||
        p.value.grad().const_data_ptr() != expected) {
      return absl::InternalError(absl::StrCat(
          "the gradient of ", p.name, " no longer stands in the buffer"));
    }
    expected += p.value.nbytes();
  }
  return flat_.scalar_type() == at::kDouble ? Sum<double>(flat_, world)
                                            : Sum<float>(flat_, world);
}

}  // namespace evenstep::trainer
