#include "worker/trainer/model/tensor_meter.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace evenstep::trainer {
namespace {

c10::CachingAllocator::Stat AllocatedBytes(c10::Device device) {
  constexpr auto kAll =
      static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return c10::getDeviceAllocator(device.type())
      ->getDeviceStats(device.index())
      .allocated_bytes[kAll];
}

}  // namespace

TensorMeter::TensorMeter(c10::Device device)
    : device_(device), account_(CurrentTensorAccount()) {}

int64_t TensorMeter::live_bytes() const {
  if (device_.is_cpu()) return account_.live_bytes();
  return AllocatedBytes(device_).current;
}

int64_t TensorMeter::peak_bytes() const {
  if (device_.is_cpu()) return account_.peak_bytes();
  return AllocatedBytes(device_).peak;
}

void TensorMeter::ResetPeak() {
  if (device_.is_cpu()) return account_.ResetPeak();
  c10::getDeviceAllocator(device_.type())->resetPeakStats(device_.index());
}

}  // namespace evenstep::trainer
