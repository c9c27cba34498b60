#ifndef EVENSTEP_TRAINER_MODEL_REQUEST_H_
#define EVENSTEP_TRAINER_MODEL_REQUEST_H_

// How a trainer makes a model that it was built with beside its own: the job's
// `model.name` chooses a maker from NamedModels, which a trainer's main gives
// to RunTrainerBinary (trainer_binary.h). Makers are called on the rank's own
// thread.

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "evenstep/trainer/model.h"

namespace evenstep::trainer {

// What a job says of its model, and where it is to stand. Sizes are in the
// ranges of a job file; degrees are planned for these heads and layers.
struct ModelRequest {
  int layers = 0;
  int width = 0;
  int heads = 0;  // divides the width
  int kv_heads = 0;
  int vocab = 0;
  int64_t max_length = 0;  // tokens of the longest sample
  AttentionMask attention = AttentionMask::kCausal;
  int patch_values = 0;  // of video: values of a token; 0 for text
  uint64_t seed = 0;     // the same values on all ranks follow from it
  // Of parameters and of all computing: float32, float64 or bfloat16.
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
};

// INVALID_ARGUMENT: the job asks for what the model cannot be. The trainer
// checks what is made: layers() add up to `layers`, and every parameter is a
// leaf with a gradient in `dtype`.
using ModelMaker =
    std::function<absl::StatusOr<std::unique_ptr<Model>>(const ModelRequest&)>;
using NamedModels = std::map<std::string, ModelMaker>;

}  // namespace evenstep::trainer

#endif  // EVENSTEP_TRAINER_MODEL_REQUEST_H_
