#ifndef EVENSTEP_WORKER_TRAINER_MODEL_NAMED_MODELS_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_NAMED_MODELS_H_

// Models that a trainer was built with beside its own: the job's `model.name`
// chooses one. A trainer's main gives them to RunTrainerBinary
// (worker/trainer/trainer_binary.h); examples/custom_model is one. Makers are
// called on the main thread, or on a thread of each rank in a profile.

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/model/model.h"

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
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
};

using ModelMaker =
    std::function<absl::StatusOr<std::unique_ptr<Model>>(const ModelRequest&)>;
using NamedModels = std::map<std::string, ModelMaker>;

// INVALID_ARGUMENT: no such name, with the known ones; a model with another
// number of layers than the job says, which is what plans recompute, or with a
// parameter that is not a leaf with a gradient of the job's type.
absl::StatusOr<std::unique_ptr<Model>> MakeNamedModel(
    const NamedModels& models, const std::string& name,
    const ModelRequest& request);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_NAMED_MODELS_H_
