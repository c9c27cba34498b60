#include "worker/trainer/generate/load_model.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/safetensors.h"
#include "data/weights_file.h"
#include "jobspec/job_spec.h"
#include "jobspec/rules/rules.h"
#include "jobspec/weights_fit.h"
#include "jobspec/weights_model.h"
#include "worker/trainer/generate/named_text_model.h"
#include "worker/trainer/job/load_weights.h"
#include "worker/trainer/job/model_config.h"
#include "worker/trainer/model/catch_torch.h"

namespace evenstep::trainer {
namespace {

// Sizes that a file only claims to have would take memory before anything else
// shows it: every tensor must be there before the model is made.
absl::Status CheckSizes(const jobspec::ModelSpec& spec,
                        const data::SafetensorsHeader& header) {
  EVENSTEP_RETURN_IF_ERROR(jobspec::ValidateModelSpec(spec));
  return jobspec::FindTensors(header, jobspec::TensorsOf(spec)).status();
}

absl::StatusOr<LoadedVideoModel> MakeFrom(const std::string& path,
                                          const data::SafetensorsHeader& file,
                                          LoadedValues values) {
  EVENSTEP_ASSIGN_OR_RETURN(const jobspec::ModelSpec spec,
                            jobspec::VideoModelOfWeights(file));
  EVENSTEP_RETURN_IF_ERROR(CheckSizes(spec, file));
  LoadedVideoModel loaded;
  loaded.channels = spec.channels;
  loaded.patch = spec.patch;
  DiffusionTransformerConfig config = ToDiffusionTransformerConfig(spec);
  const auto seed = file.metadata.find("evenstep.seed");
  if (seed == file.metadata.end() ||
      !absl::SimpleAtoi(seed->second, &config.seed)) {
    return absl::InvalidArgumentError("the metadata have no evenstep.seed");
  }
  EVENSTEP_ASSIGN_OR_RETURN(loaded.model, MakeDiffusionTransformer(config));
  if (values == LoadedValues::kTrained) {
    EVENSTEP_RETURN_IF_ERROR(LoadWeights(path, loaded.model->parameters()));
    return loaded;
  }
  const auto given = file.metadata.find("evenstep.model.weights");
  if (given == file.metadata.end()) return loaded;
  return absl::InvalidArgumentError(absl::StrCat(
      "the job did not begin with initial values but with the weights of ",
      given->second, "; sample from those"));
}

at::ScalarType TypeFor(const data::SafetensorsHeader& header) {
  const bool is_double =
      !header.places.empty() && header.places.front().dtype == "F64";
  return is_double ? at::kDouble : at::kFloat;
}

absl::StatusOr<std::unique_ptr<TextModel>> MakeOwnText(
    const std::string& file, const data::SafetensorsHeader& header,
    const jobspec::ModelSpec& spec) {
  EVENSTEP_RETURN_IF_ERROR(CheckSizes(spec, header));
  EVENSTEP_RETURN_IF_ERROR(jobspec::CheckModelOfWeights(file, spec));
  DecoderConfig config = ToDecoderConfig(spec);
  config.dtype = TypeFor(header);
  return MakeDecoder(config);
}

absl::StatusOr<LoadedTextModel> MakeNamedText(
    const jobspec::ModelSpec& spec, const data::SafetensorsHeader& header,
    const NamedModels& models) {
  EVENSTEP_ASSIGN_OR_RETURN(const ModelRequest request,
                            RequestOf(spec, header.metadata, TypeFor(header)));
  LoadedTextModel loaded;
  loaded.longest = request.max_length;
  EVENSTEP_ASSIGN_OR_RETURN(loaded.model,
                            MakeNamedTextModel(models, spec.name, request));
  return loaded;
}

absl::StatusOr<LoadedTextModel> MakeTextModel(const std::string& file,
                                              const NamedModels& models) {
  EVENSTEP_ASSIGN_OR_RETURN(const data::SafetensorsHeader header,
                            data::ReadSafetensorsHeader(file));
  EVENSTEP_ASSIGN_OR_RETURN(const jobspec::ModelSpec spec,
                            jobspec::TextModelOfWeights(file, header));
  LoadedTextModel loaded;
  if (spec.name.empty()) {
    EVENSTEP_ASSIGN_OR_RETURN(loaded.model, MakeOwnText(file, header, spec));
  } else {
    EVENSTEP_ASSIGN_OR_RETURN(loaded, MakeNamedText(spec, header, models));
  }
  EVENSTEP_RETURN_IF_ERROR(LoadWeights(file, loaded.model->parameters()));
  const auto tokenizer = header.metadata.find("evenstep.tokenizer");
  loaded.knows_tokenizer = tokenizer != header.metadata.end();
  if (loaded.knows_tokenizer) loaded.tokenizer = tokenizer->second;
  return loaded;
}

}  // namespace

absl::StatusOr<LoadedTextModel> LoadTextModel(const std::string& path,
                                              const NamedModels& models) {
  EVENSTEP_ASSIGN_OR_RETURN(const std::string file,
                            data::SafetensorsFileOf(path));
  LoadedTextModel loaded;
  const absl::Status made = CatchTorch(file, [&]() -> absl::Status {
    EVENSTEP_ASSIGN_OR_RETURN(loaded, MakeTextModel(file, models));
    return absl::OkStatus();
  });
  if (made.ok()) return loaded;
  return jobspec::WithPath(made, file);
}

absl::StatusOr<LoadedVideoModel> LoadVideoModel(const std::string& path,
                                                LoadedValues values) {
  EVENSTEP_ASSIGN_OR_RETURN(const std::string file,
                            data::SafetensorsFileOf(path));
  EVENSTEP_ASSIGN_OR_RETURN(const data::SafetensorsHeader header,
                            data::ReadSafetensorsHeader(file));
  LoadedVideoModel loaded;
  EVENSTEP_RETURN_IF_ERROR(CatchTorch(path, [&]() -> absl::Status {
    EVENSTEP_ASSIGN_OR_RETURN(loaded, MakeFrom(file, header, values));
    return absl::OkStatus();
  }));
  return loaded;
}

}  // namespace evenstep::trainer
