#ifndef EVENSTEP_WORKER_TRAINER_MODEL_NAMED_MODELS_H_
#define EVENSTEP_WORKER_TRAINER_MODEL_NAMED_MODELS_H_

// Makes and checks the model that a job names (model_request.h). Called on the
// main thread, or on a thread of each rank in a profile.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "evenstep/trainer/model_request.h"

namespace evenstep::trainer {

// INVALID_ARGUMENT: no such name, with the known ones; a model with another
// number of layers than the job says, which is what plans recompute, or with a
// parameter that is not a leaf with a gradient of the job's type.
absl::StatusOr<std::unique_ptr<Model>> MakeNamedModel(
    const NamedModels& models, const std::string& name,
    const ModelRequest& request);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_MODEL_NAMED_MODELS_H_
