#ifndef EVENSTEP_WORKER_TRAINER_MODEL_TENSOR_MEMORY_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_TENSOR_MEMORY_H_

// Counts the bytes of tensors on the CPU: what lives, and the most that lived.
// The C library keeps freed memory, so the process's size says nothing. A
// trainer counts in one account; tests whose ranks are threads give each an
// account of its own. Thread-safe.
//
//   CountTensorBytes();                      // first thing in main
//   TensorAccount& account = CurrentTensorAccount();
//   account.ResetPeak();  ...  account.peak_bytes()

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>

namespace evenstep::trainer {

class TensorAccount {
 public:
  int64_t live_bytes() const { return live_; }
  // Since the last reset.
  int64_t peak_bytes() const { return peak_; }
  void ResetPeak() { peak_ = live_.load(); }

  void Add(int64_t bytes);
  void Remove(int64_t bytes) { live_ -= bytes; }

 private:
  std::atomic<int64_t> live_ = 0;
  std::atomic<int64_t> peak_ = 0;
};

// From now on all tensors are counted. Before the first tensor of the process;
// calling it again does nothing.
void CountTensorBytes();

// Where tensors that this thread makes are counted; nothing is counted, and
// all is 0, without CountTensorBytes.
TensorAccount& CurrentTensorAccount();

// This thread counts in `account` for the life of the scope. The account
// outlives every tensor made in it.
class ScopedTensorAccount {
 public:
  explicit ScopedTensorAccount(TensorAccount* account);
  ~ScopedTensorAccount();
  ScopedTensorAccount(const ScopedTensorAccount&) = delete;
  ScopedTensorAccount& operator=(const ScopedTensorAccount&) = delete;

 private:
  TensorAccount* const previous_;
};

// The bytes of tensors where a rank computes: on the CPU those of the thread's
// account (tensor_memory.h), on a device those of torch's caching allocator,
// whichever thread asked for them. Used by the step runner; main thread only.

class TensorMeter {
 public:
  // Of the calling thread. Tensors stand on the device already.
  explicit TensorMeter(c10::Device device);

  int64_t live_bytes() const;
  // Since the last reset.
  int64_t peak_bytes() const;
  void ResetPeak();

 private:
  const c10::Device device_;
  TensorAccount& account_;  // if the device is the CPU
};

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_TENSOR_MEMORY_H_
