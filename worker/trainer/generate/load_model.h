#ifndef EVENSTEP_WORKER_TRAINER_GENERATE_LOAD_MODEL_H_
#define EVENSTEP_WORKER_TRAINER_GENERATE_LOAD_MODEL_H_

// A trained video model from the weights file that a job leaves behind
// (loop/weights.h), which says in its metadata what the model is. Stateless.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/trainer/model/diffusion_transformer.h"

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
// model; a tensor is missing or of another shape.
absl::StatusOr<LoadedVideoModel> LoadVideoModel(const std::string& path,
                                                LoadedValues values);

}  // namespace evenstep::trainer

#endif  // EVENSTEP_WORKER_TRAINER_GENERATE_LOAD_MODEL_H_
