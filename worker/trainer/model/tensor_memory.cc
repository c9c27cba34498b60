#include "worker/trainer/model/tensor_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <utility>

namespace evenstep::trainer {
namespace {

// In front of every tensor's bytes. As long as a cache line, to which torch
// aligns.
struct alignas(64) Header {
  TensorAccount* account;
  int64_t bytes;
};
static_assert(sizeof(Header) == 64);

TensorAccount& ProcessAccount() {
  static TensorAccount* const account = new TensorAccount();
  return *account;
}

thread_local TensorAccount* current_account = nullptr;

void Release(void* data) {
  if (data == nullptr) return;
  Header* const header = static_cast<Header*>(data) - 1;
  header->account->Remove(header->bytes);
  c10::GetDefaultCPUAllocator()->raw_deallocate(header);
}

// Torch's own allocator with a header in front of what it gives.
class CountingAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &Release, c10::DeviceType::CPU};
    void* const base =
        c10::GetDefaultCPUAllocator()->raw_allocate(bytes + sizeof(Header));
    Header* const header =
        new (base) Header{&CurrentTensorAccount(), static_cast<int64_t>(bytes)};
    header->account->Add(header->bytes);
    void* const data = header + 1;
    return {data, data, &Release, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

void TensorAccount::Add(int64_t bytes) {
  const int64_t live = live_ += bytes;
  int64_t peak = peak_;
  while (live > peak && !peak_.compare_exchange_weak(peak, live)) {
  }
}

void CountTensorBytes() {
  static const bool installed = [] {
    constexpr uint8_t kPriority = 100;  // above torch's own
    c10::SetCPUAllocator(new CountingAllocator(), kPriority);
    return true;
  }();
  static_cast<void>(installed);
}

TensorAccount& CurrentTensorAccount() {
  return current_account != nullptr ? *current_account : ProcessAccount();
}

ScopedTensorAccount::ScopedTensorAccount(TensorAccount* account)
    : previous_(std::exchange(current_account, account)) {}

ScopedTensorAccount::~ScopedTensorAccount() { current_account = previous_; }

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
