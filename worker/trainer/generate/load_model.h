#ifndef EVENSTEP_WORKER_TRAINER_GENERATE_LOAD_MODEL_H_
#define EVENSTEP_WORKER_TRAINER_GENERATE_LOAD_MODEL_H_

// A trained model from the weights file that a job leaves behind
// (job/weights.h), which says in its metadata what the model is, or, of text,
// from what Hugging Face's Llama was saved as. A text model may be one that the
// trainer was built with. Stateless.

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "data/safetensors.h"
#include "evenstep/trainer/model.h"
#include "jobspec/job_spec.h"
#include "worker/trainer/model/diffusion_transformer.h"
#include "worker/trainer/model/named_models.h"

namespace evenstep::trainer {

struct LoadedVideoModel {
  std::unique_ptr<DiffusionTransformer> model;
  int channels = 1;  // of a latent
  int patch = 1;     // latent pixels
};

// Whether parameters are those of the file, or the initial ones from which the
// job that wrote it began: a model as it was before training.
enum class LoadedValues { kTrained, kInitial };

// NOT_FOUND, DATA_LOSS: no sound file. INVALID_ARGUMENT: it is of no video
// model, or a size is out of a job's range. FAILED_PRECONDITION: a tensor is
// missing or of another shape, or the model is no video model of the trainer's
// own. No memory is taken for sizes that the file's tensors have not.
absl::StatusOr<LoadedVideoModel> LoadVideoModel(const std::string& path,
                                                LoadedValues values);

struct LoadedTextModel {
  std::unique_ptr<TextModel> model;
  std::string tokenizer;  // path that the job had; empty: bytes, or not known
  bool knows_tokenizer = false;  // the file says it
  int64_t longest = 0;  // tokens of a text that it was made for; 0: any
};

// In float32, or float64 if the file is. FAILED_PRECONDITION: neither the file
// nor a config.json beside it says what the model is, it is of another kind, or
// a tensor does not fit. INVALID_ARGUMENT: a size is out of a job's range, or
// the model has a name that is not among `models`.
absl::StatusOr<LoadedTextModel> LoadTextModel(const std::string& path,
                                              const NamedModels& models = {});

// A text model that the trainer was built with, made again with the sizes that
// its job had, to be asked for text. Called by load_model.cc. Stateless.

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

#endif  // EVENSTEP_WORKER_TRAINER_GENERATE_LOAD_MODEL_H_
