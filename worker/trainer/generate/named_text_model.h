#ifndef EVENSTEP_WORKER_TRAINER_GENERATE_NAMED_TEXT_MODEL_H_
#define EVENSTEP_WORKER_TRAINER_GENERATE_NAMED_TEXT_MODEL_H_

// A text model that the trainer was built with, made again with the sizes that
// its job had, to be asked for text. Called by load_model.cc. Stateless.

#include <c10/core/ScalarType.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "data/safetensors.h"
#include "jobspec/job_spec.h"
#include "worker/trainer/model/named_models.h"
#include "worker/trainer/model/text_model.h"

namespace evenstep::trainer {

// What the job whose weights have these metadata said of its model.
// INVALID_ARGUMENT: a size is out of a job's range. FAILED_PRECONDITION: they
// do not say how long its longest sample was; such models may have a parameter
// for every position.
absl::StatusOr<ModelRequest> RequestOf(
    const jobspec::ModelSpec& spec, const data::SafetensorsMetadata& metadata,
    at::ScalarType dtype);

// With values of its own, not yet those of the weights. Errors of
// MakeNamedModel. FAILED_PRECONDITION: it is no TextModel, or its tokens see
// what comes after them. What it takes of memory is up to its maker.
absl::StatusOr<std::unique_ptr<TextModel>> MakeNamedTextModel(
    const NamedModels& models, const std::string& name,
    const ModelRequest& request);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_GENERATE_NAMED_TEXT_MODEL_H_
