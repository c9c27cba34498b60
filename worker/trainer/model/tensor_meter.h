#ifndef EVENSTEP_WORKER_TRAINER_MODEL_TENSOR_METER_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_TENSOR_METER_H_

// The bytes of tensors where a rank computes: on the CPU those of the thread's
// account (tensor_memory.h), on a device those of torch's caching allocator,
// whichever thread asked for them. Used by the step runner; main thread only.

#include <c10/core/Device.h>

#include <cstdint>

#include "worker/trainer/model/tensor_memory.h"

namespace evenstep::trainer {

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

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_TENSOR_METER_H_
