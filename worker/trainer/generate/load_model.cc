#include "worker/trainer/generate/load_model.h"

#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/parse_value.h"
#include "base/status_macros.h"
#include "data/safetensors.h"
#include "jobspec/job_spec.h"
#include "nlohmann/json.hpp"
#include "worker/trainer/loop/load_weights.h"
#include "worker/trainer/loop/weights.h"
#include "worker/trainer/model/catch_torch.h"

namespace evenstep::trainer {
namespace {

using Json = nlohmann::json;

constexpr char kModelPrefix[] = "evenstep.model.";
constexpr int64_t kMaxConfigBytes = 1 << 20;

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

absl::StatusOr<LoadedVideoModel> MakeFrom(const std::string& path,
                                          const data::SafetensorsHeader& file,
                                          LoadedValues values) {
  LoadedVideoModel loaded;
  DiffusionTransformerConfig config;
  EVENSTEP_ASSIGN_OR_RETURN(loaded.channels,
                            NumberIn(file, "evenstep.model.channels"));
  EVENSTEP_ASSIGN_OR_RETURN(loaded.patch,
                            NumberIn(file, "evenstep.model.patch"));
  EVENSTEP_ASSIGN_OR_RETURN(config.layers,
                            NumberIn(file, "evenstep.model.layers"));
  EVENSTEP_ASSIGN_OR_RETURN(config.width,
                            NumberIn(file, "evenstep.model.width"));
  EVENSTEP_ASSIGN_OR_RETURN(config.heads,
                            NumberIn(file, "evenstep.model.heads"));
  config.channels = loaded.channels * loaded.patch * loaded.patch;
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

// What a job's file says of itself.
absl::StatusOr<jobspec::ModelSpec> SpecOf(
    const data::SafetensorsMetadata& metadata) {
  jobspec::ModelSpec spec;
  const auto value = [&](const char* key, auto* target) -> absl::Status {
    const auto found = metadata.find(absl::StrCat(kModelPrefix, key));
    if (found == metadata.end()) return absl::OkStatus();  // of an older job
    return ParseValue(found->second, target);
  };
  EVENSTEP_RETURN_IF_ERROR(value("layers", &spec.layers));
  EVENSTEP_RETURN_IF_ERROR(value("width", &spec.width));
  EVENSTEP_RETURN_IF_ERROR(value("heads", &spec.heads));
  EVENSTEP_RETURN_IF_ERROR(value("kv_heads", &spec.kv_heads));
  EVENSTEP_RETURN_IF_ERROR(value("vocab", &spec.vocab));
  EVENSTEP_RETURN_IF_ERROR(value("mlp_width", &spec.mlp_width));
  EVENSTEP_RETURN_IF_ERROR(value("rope_theta", &spec.rope_theta));
  EVENSTEP_RETURN_IF_ERROR(value("norm_epsilon", &spec.norm_epsilon));
  const auto attention = metadata.find("evenstep.model.attention");
  if (attention == metadata.end()) return spec;
  EVENSTEP_RETURN_IF_ERROR(
      jobspec::ParseAttention(attention->second, &spec.attention));
  return spec;
}

// The same of Hugging Face's Llama, with its defaults.
absl::StatusOr<jobspec::ModelSpec> SpecOf(const Json& config) {
  jobspec::ModelSpec spec;
  try {
    spec.layers = config.at("num_hidden_layers");
    spec.width = config.at("hidden_size");
    spec.heads = config.at("num_attention_heads");
    spec.kv_heads = config.value("num_key_value_heads", spec.heads);
    spec.vocab = config.at("vocab_size");
    spec.mlp_width = config.at("intermediate_size");
    spec.norm_epsilon = config.value("rms_norm_eps", 1e-6);
    spec.rope_theta = config.value("rope_theta", jobspec::kRopeTheta);
    const Json rope = config.value("rope_parameters", Json::object());
    spec.rope_theta = rope.value("rope_theta", spec.rope_theta);
  } catch (const Json::exception& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("config.json: ", error.what()));
  }
  return spec;
}

absl::StatusOr<jobspec::ModelSpec> ReadSpec(
    const std::string& file, const data::SafetensorsHeader& header) {
  const auto name = header.metadata.find("evenstep.model.name");
  if (name != header.metadata.end()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the weights are of '", name->second,
        "', a model that its trainer was built with; this trainer has its own "
        "models alone"));
  }
  if (header.metadata.count("evenstep.model.layers") > 0) {
    return SpecOf(header.metadata);
  }
  const auto path = std::filesystem::path(file).parent_path() / kConfigName;
  const auto text = ReadWholeFile(path.string(), kMaxConfigBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::FailedPreconditionError(
        "neither its metadata nor a config.json beside it says what the model "
        "is");
  }
  EVENSTEP_RETURN_IF_ERROR(text.status());
  const Json config = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (config.is_object()) return SpecOf(config);
  return absl::DataLossError("config.json beside it is no JSON object");
}

DecoderConfig ToConfig(const jobspec::ModelSpec& spec,
                       const data::SafetensorsHeader& header) {
  DecoderConfig config;
  config.layers = spec.layers;
  config.width = spec.width;
  config.heads = spec.heads;
  config.kv_heads = spec.kv_heads;
  config.vocab = spec.vocab;
  config.mlp_width = spec.mlp_width;
  config.rope_theta = spec.rope_theta;
  config.norm_epsilon = spec.norm_epsilon;
  if (spec.attention == jobspec::Attention::kFull) {
    config.attention = AttentionMask::kFull;
  }
  if (!header.places.empty() && header.places.front().dtype == "F64") {
    config.dtype = at::kDouble;
  }
  return config;
}

absl::StatusOr<LoadedTextModel> MakeTextModel(const std::string& file) {
  EVENSTEP_ASSIGN_OR_RETURN(const data::SafetensorsHeader header,
                            data::ReadSafetensorsHeader(file));
  EVENSTEP_ASSIGN_OR_RETURN(const jobspec::ModelSpec spec,
                            ReadSpec(file, header));
  EVENSTEP_RETURN_IF_ERROR(CheckModelOfWeights(file, spec));
  LoadedTextModel loaded;
  EVENSTEP_ASSIGN_OR_RETURN(loaded.model, MakeDecoder(ToConfig(spec, header)));
  EVENSTEP_RETURN_IF_ERROR(LoadWeights(file, loaded.model->parameters()));
  const auto tokenizer = header.metadata.find("evenstep.tokenizer");
  if (tokenizer != header.metadata.end()) loaded.tokenizer = tokenizer->second;
  return loaded;
}

}  // namespace

absl::StatusOr<bool> IsVideoModel(const std::string& path) {
  EVENSTEP_ASSIGN_OR_RETURN(const std::string file, WeightsFile(path));
  EVENSTEP_ASSIGN_OR_RETURN(const data::SafetensorsHeader header,
                            data::ReadSafetensorsHeader(file));
  const auto kind = header.metadata.find("evenstep.model.kind");
  return kind != header.metadata.end() && kind->second == "video";
}

absl::StatusOr<LoadedTextModel> LoadTextModel(const std::string& path) {
  EVENSTEP_ASSIGN_OR_RETURN(const std::string file, WeightsFile(path));
  LoadedTextModel loaded;
  const absl::Status made = CatchTorch(file, [&]() -> absl::Status {
    EVENSTEP_ASSIGN_OR_RETURN(loaded, MakeTextModel(file));
    return absl::OkStatus();
  });
  if (made.ok()) return loaded;
  if (absl::StrContains(made.message(), file)) return made;
  return absl::Status(made.code(), absl::StrCat(file, ": ", made.message()));
}

absl::StatusOr<LoadedVideoModel> LoadVideoModel(const std::string& path,
                                                LoadedValues values) {
  EVENSTEP_ASSIGN_OR_RETURN(const std::string file, WeightsFile(path));
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
