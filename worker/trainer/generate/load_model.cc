#include "worker/trainer/generate/load_model.h"

#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/parse_value.h"
#include "base/status_macros.h"
#include "data/safetensors.h"
#include "data/weights_file.h"
#include "jobspec/job_spec.h"
#include "jobspec/rules/rules.h"
#include "jobspec/weights_fit.h"
#include "jobspec/weights_model.h"
#include "planner/limits.h"
#include "worker/trainer/job/trainer_setup.h"
#include "worker/trainer/job/weights.h"
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

namespace {

// A model with a parameter for every position has this many.
absl::StatusOr<int64_t> LongestText(const data::SafetensorsMetadata& metadata) {
  const auto found = metadata.find(kMaxLengthKey);
  if (found == metadata.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the metadata have no ", kMaxLengthKey,
                     ", which a model with a name is made with; an older "
                     "trainer wrote them"));
  }
  int64_t longest = 0;
  if (absl::SimpleAtoi(found->second, &longest) && longest >= 1 &&
      longest <= planner::kMaxLengthTokens) {
    return longest;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(kMaxLengthKey, ": ", found->second, " is not in 1 to ",
                   planner::kMaxLengthTokens));
}

absl::Status CheckCausal(const std::string& name, const ModelRequest& request) {
  if (request.attention == AttentionMask::kCausal) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the model '", name,
                   "' was trained with attention: full; a model whose tokens "
                   "see what comes after them cannot go on"));
}

}  // namespace

absl::StatusOr<ModelRequest> RequestOf(
    const jobspec::ModelSpec& spec, const data::SafetensorsMetadata& metadata,
    at::ScalarType dtype) {
  EVENSTEP_RETURN_IF_ERROR(jobspec::ValidateModelSpec(spec));
  EVENSTEP_ASSIGN_OR_RETURN(const int64_t longest, LongestText(metadata));
  ModelRequest request = ToModelRequest(spec, longest);
  request.dtype = dtype;
  const auto seed = metadata.find("evenstep.seed");
  if (seed == metadata.end()) return request;
  EVENSTEP_RETURN_IF_ERROR(ParseValue(seed->second, &request.seed));
  return request;
}

absl::StatusOr<std::unique_ptr<TextModel>> MakeNamedTextModel(
    const NamedModels& models, const std::string& name,
    const ModelRequest& request) {
  EVENSTEP_RETURN_IF_ERROR(CheckCausal(name, request));
  absl::StatusOr<std::unique_ptr<Model>> model =
      MakeNamedModel(models, name, request);
  if (!model.ok() && models.count(name) == 0) {
    return absl::Status(model.status().code(),
                        absl::StrCat(model.status().message(),
                                     " (evenstep generate --trainer)"));
  }
  EVENSTEP_RETURN_IF_ERROR(model.status());
  auto* const text = dynamic_cast<TextModel*>(model->get());
  if (text == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the model '", name,
        "' can be trained but not asked for text: it derives from Model, not "
        "from TextModel (evenstep/trainer/model.h)"));
  }
  model->release();
  return std::unique_ptr<TextModel>(text);
}

}  // namespace evenstep::trainer
