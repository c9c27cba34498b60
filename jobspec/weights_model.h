#ifndef EVENSTEP_JOBSPEC_WEIGHTS_MODEL_H_
#define EVENSTEP_JOBSPEC_WEIGHTS_MODEL_H_

// Of which model weights are: what a file says of it beside its tensors, in
// the metadata that a job writes, or in the config.json of Hugging Face's
// Llama. Called by `generate`, which makes that model, and by jobs that begin
// with weights, whose model it must be. Reads files; no state; no torch.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/safetensors.h"
#include "jobspec/job_spec.h"

namespace evenstep::jobspec {

// Whether the weights of `path`, a file or a folder with a model.safetensors,
// are of a video model; else they are of text. NOT_FOUND, DATA_LOSS: no sound
// file. FAILED_PRECONDITION: the weights are in several.
absl::StatusOr<bool> IsVideoModel(const std::string& path);

// Of weights that a job wrote, whose model may have a name, or of a Llama with
// its config.json in the folder of `file`. FAILED_PRECONDITION: neither says
// what the model is, or it is of another kind. Errors of ParseLlamaConfig.
absl::StatusOr<ModelSpec> TextModelOfWeights(
    const std::string& file, const data::SafetensorsHeader& header);

// INVALID_ARGUMENT: the metadata are of no video model. FAILED_PRECONDITION: of
// one with a name.
absl::StatusOr<ModelSpec> VideoModelOfWeights(
    const data::SafetensorsHeader& header);

// What shapes do not show: FAILED_PRECONDITION with both values if the file's
// metadata are of a model of another name, kind or attention than `model`, or
// if they or a config.json beside it have other heads, epsilon or rotary angles
// or something that it has not. Of a model with a name, which is no Llama, the
// name, the kind and the heads count. `path`: a file or its folder.
absl::Status CheckModelOfWeights(const std::string& path,
                                 const ModelSpec& model);

// The same, and the tensors of a model without a name: their names, shapes and
// types (weights_fit.h). All that can be known without reading a value.
absl::Status CheckWeightsFit(const std::string& path, const ModelSpec& model);

// The status with the path in front, unless it is OK or names it already.
absl::Status WithPath(const absl::Status& status, absl::string_view path);

}  // namespace evenstep::jobspec

#endif  // EVENSTEP_JOBSPEC_WEIGHTS_MODEL_H_
