#include "jobspec/weights_model.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/weights_file.h"
#include "jobspec/job_keys.h"
#include "jobspec/llama_config.h"
#include "jobspec/weights_fit.h"

namespace evenstep::jobspec {
namespace {

constexpr char kNameKey[] = "evenstep.model.name";
constexpr char kKindKey[] = "evenstep.model.kind";

absl::StatusOr<int> NumberIn(const data::SafetensorsHeader& file,
                             const std::string& key) {
  const auto found = file.metadata.find(key);
  int value = 0;
  if (found != file.metadata.end() && absl::SimpleAtoi(found->second, &value) &&
      value > 0) {
    return value;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the metadata have no ", key, ": the weights are of no video model"));
}

absl::string_view KindName(ModelKind kind) {
  return WordOf("model.kind", kind);
}

// Those of text do not say it.
absl::string_view KindOf(const data::SafetensorsMetadata& metadata) {
  const auto found = metadata.find(kKindKey);
  return found == metadata.end() ? KindName(ModelKind::kText)
                                 : absl::string_view(found->second);
}

// What a job's file says of itself.
absl::StatusOr<ModelSpec> SpecOf(const data::SafetensorsMetadata& metadata) {
  JobSpec spec;
  for (const absl::string_view name :
       {"model.layers", "model.width", "model.heads", "model.kv_heads",
        "model.vocab", "model.mlp_width", "model.rope_theta",
        "model.norm_epsilon", "model.name", "model.attention"}) {
    const auto found = metadata.find(absl::StrCat("evenstep.", name));
    if (found == metadata.end()) continue;  // of an older job
    EVENSTEP_RETURN_IF_ERROR(SetKey(*FindJobKey(name), found->second, &spec));
  }
  return spec.model;
}

// What a job says of its model in words; others say nothing.
absl::Status CheckWords(const data::SafetensorsMetadata& metadata,
                        const ModelSpec& model) {
  const auto word = [&](const char* key, absl::string_view usual,
                        absl::string_view ours) {
    const auto found = metadata.find(key);
    const absl::string_view theirs =
        found == metadata.end() ? usual : absl::string_view(found->second);
    return theirs == ours ? absl::OkStatus() : ModelDiffers(key, theirs, ours);
  };
  constexpr char kNone[] = "none";
  EVENSTEP_RETURN_IF_ERROR(
      word(kNameKey, kNone,
           model.name.empty() ? kNone : absl::string_view(model.name)));
  if (KindOf(metadata) != KindName(model.kind)) {
    return ModelDiffers(kKindKey, KindOf(metadata), KindName(model.kind));
  }
  if (model.is_video() || !model.name.empty()) return absl::OkStatus();
  const absl::string_view attention =
      WordOf("model.attention", model.attention);
  return word("evenstep.model.attention", attention, attention);
}

absl::Status CheckMetadata(const data::SafetensorsMetadata& metadata,
                           const ModelSpec& model) {
  if (metadata.count("evenstep.model.layers") > 0) {
    EVENSTEP_RETURN_IF_ERROR(CheckWords(metadata, model));
  }
  const auto number = [&](const char* key, double ours) {
    const auto found = metadata.find(key);
    double theirs = 0;
    if (found == metadata.end() ||
        (absl::SimpleAtod(found->second, &theirs) && theirs == ours)) {
      return absl::OkStatus();
    }
    return ModelDiffers(key, found->second, absl::StrCat(ours));
  };
  EVENSTEP_RETURN_IF_ERROR(number("evenstep.model.heads", model.heads));
  if (model.is_video()) return number("evenstep.model.patch", model.patch);
  EVENSTEP_RETURN_IF_ERROR(number("evenstep.model.kv_heads", model.kv_heads));
  // A model with a name does as it likes.
  if (!model.name.empty()) return absl::OkStatus();
  EVENSTEP_RETURN_IF_ERROR(
      number("evenstep.model.rope_theta", model.rope_theta));
  return number("evenstep.model.norm_epsilon", model.norm_epsilon);
}

// A head that is not in the file is taken to be the embedding, unless the
// configuration says that it is not.
absl::Status CheckHead(absl::string_view config,
                       const data::SafetensorsHeader& header) {
  if (header.Find(kHeadTensor) != nullptr) return absl::OkStatus();
  EVENSTEP_ASSIGN_OR_RETURN(const bool apart, SaysTheHeadIsApart(config));
  if (!apart) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "config.json beside it says tie_word_embeddings: false, and the file has "
      "no ",
      kHeadTensor,
      ": the model was saved without its head. Save it as LlamaForCausalLM, "
      "or, "
      "if the head shall begin as the embedding, set tie_word_embeddings to "
      "true"));
}

absl::Status CheckBoth(const std::string& file, const ModelSpec& model) {
  EVENSTEP_ASSIGN_OR_RETURN(const data::SafetensorsHeader header,
                            data::ReadSafetensorsHeader(file));
  EVENSTEP_RETURN_IF_ERROR(CheckMetadata(header.metadata, model));
  if (model.is_video() || !model.name.empty()) return absl::OkStatus();
  const auto config = ReadConfigBeside(file);
  if (absl::IsNotFound(config.status())) return absl::OkStatus();
  EVENSTEP_RETURN_IF_ERROR(config.status());
  EVENSTEP_RETURN_IF_ERROR(CheckLlamaConfig(*config, model));
  return CheckHead(*config, header);
}

}  // namespace

absl::StatusOr<bool> IsVideoModel(const std::string& path) {
  EVENSTEP_ASSIGN_OR_RETURN(const std::string file,
                            data::SafetensorsFileOf(path));
  EVENSTEP_ASSIGN_OR_RETURN(const data::SafetensorsHeader header,
                            data::ReadSafetensorsHeader(file));
  return KindOf(header.metadata) == KindName(ModelKind::kVideo);
}

absl::StatusOr<ModelSpec> TextModelOfWeights(
    const std::string& file, const data::SafetensorsHeader& header) {
  const absl::string_view kind = KindOf(header.metadata);
  if (kind != KindName(ModelKind::kText)) {
    return absl::FailedPreconditionError(absl::StrCat(
        kKindKey, " is ", kind, ": the weights are of no text model"));
  }
  if (header.metadata.count("evenstep.model.layers") > 0) {
    return SpecOf(header.metadata);
  }
  const auto config = ReadConfigBeside(file);
  if (absl::IsNotFound(config.status())) {
    return absl::FailedPreconditionError(
        "neither its metadata nor a config.json beside it says what the model "
        "is");
  }
  EVENSTEP_RETURN_IF_ERROR(config.status());
  return ParseLlamaConfig(*config);
}

absl::StatusOr<ModelSpec> VideoModelOfWeights(
    const data::SafetensorsHeader& header) {
  const auto name = header.metadata.find(kNameKey);
  if (name != header.metadata.end()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the weights are of '", name->second,
        "', a video model that its trainer was built with; clips are sampled "
        "from the trainer's own alone"));
  }
  ModelSpec spec;
  spec.kind = ModelKind::kVideo;
  for (const auto& [key, value] :
       {std::pair("evenstep.model.channels", &spec.channels),
        {"evenstep.model.patch", &spec.patch},
        {"evenstep.model.layers", &spec.layers},
        {"evenstep.model.width", &spec.width},
        {"evenstep.model.heads", &spec.heads}}) {
    EVENSTEP_ASSIGN_OR_RETURN(*value, NumberIn(header, key));
  }
  spec.kv_heads = spec.heads;
  return spec;
}

absl::Status CheckWeightsFit(const std::string& path, const ModelSpec& model) {
  EVENSTEP_RETURN_IF_ERROR(CheckModelOfWeights(path, model));
  if (!model.name.empty()) return absl::OkStatus();
  EVENSTEP_ASSIGN_OR_RETURN(const std::string file,
                            data::SafetensorsFileOf(path));
  EVENSTEP_ASSIGN_OR_RETURN(const data::SafetensorsHeader header,
                            data::ReadSafetensorsHeader(file));
  return WithPath(FindTensors(header, TensorsOf(model)).status(), file);
}

absl::Status CheckModelOfWeights(const std::string& path,
                                 const ModelSpec& model) {
  EVENSTEP_ASSIGN_OR_RETURN(const std::string file,
                            data::SafetensorsFileOf(path));
  return WithPath(CheckBoth(file, model), file);
}

absl::Status WithPath(const absl::Status& status, absl::string_view path) {
  if (status.ok() || absl::StrContains(status.message(), path)) return status;
  return absl::Status(status.code(),
                      absl::StrCat(path, ": ", status.message()));
}

}  // namespace evenstep::jobspec
