#include "worker/trainer/generate/load_model.h"

#include <filesystem>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/parse_value.h"
#include "base/status_macros.h"
#include "data/safetensors.h"
#include "jobspec/job_spec.h"
#include "jobspec/rules.h"
#include "nlohmann/json.hpp"
#include "worker/trainer/loop/load_weights.h"
#include "worker/trainer/loop/weights.h"
#include "worker/trainer/model/catch_torch.h"

namespace evenstep::trainer {
namespace {

using Json = nlohmann::json;

constexpr char kModelPrefix[] = "evenstep.model.";
constexpr int64_t kMaxConfigBytes = 1 << 20;

// Sizes that a file only claims to have would take memory before anything else
// shows it: every layer must be there before the model is made.
absl::Status CheckVideoSizes(const jobspec::ModelSpec& spec,
                             const data::SafetensorsHeader& header) {
  EVENSTEP_RETURN_IF_ERROR(jobspec::ValidateModelSpec(spec));
  EVENSTEP_RETURN_IF_ERROR(CheckTensor(
      header, "patch_embed.weight",
      {spec.width, int64_t{spec.channels} * spec.patch * spec.patch}));
  for (int layer = 0; layer < spec.layers; ++layer) {
    EVENSTEP_RETURN_IF_ERROR(CheckTensor(
        header, absl::StrCat("blocks.", layer, ".attn.q_proj.weight"),
        {spec.width, spec.width}));
  }
  return absl::OkStatus();
}

// The same of text.
absl::Status CheckTextSizes(const jobspec::ModelSpec& spec,
                            const data::SafetensorsHeader& header) {
  EVENSTEP_RETURN_IF_ERROR(jobspec::ValidateModelSpec(spec));
  EVENSTEP_RETURN_IF_ERROR(CheckTensor(header, "model.embed_tokens.weight",
                                       {spec.vocab, spec.width}));
  DecoderConfig config;
  config.width = spec.width;
  config.mlp_width = spec.mlp_width;
  const int64_t mlp_width = MlpWidth(config);
  for (int layer = 0; layer < spec.layers; ++layer) {
    const std::string prefix = absl::StrCat("model.layers.", layer, ".");
    EVENSTEP_RETURN_IF_ERROR(
        CheckTensor(header, absl::StrCat(prefix, "self_attn.q_proj.weight"),
                    {spec.width, spec.width}));
    EVENSTEP_RETURN_IF_ERROR(
        CheckTensor(header, absl::StrCat(prefix, "mlp.up_proj.weight"),
                    {mlp_width, spec.width}));
  }
  return absl::OkStatus();
}

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

absl::StatusOr<jobspec::ModelSpec> VideoSpecOf(
    const data::SafetensorsHeader& file) {
  jobspec::ModelSpec spec;
  spec.kind = jobspec::ModelKind::kVideo;
  for (const auto& [key, value] :
       {std::pair("evenstep.model.channels", &spec.channels),
        {"evenstep.model.patch", &spec.patch},
        {"evenstep.model.layers", &spec.layers},
        {"evenstep.model.width", &spec.width},
        {"evenstep.model.heads", &spec.heads}}) {
    EVENSTEP_ASSIGN_OR_RETURN(*value, NumberIn(file, key));
  }
  spec.kv_heads = spec.heads;
  return spec;
}

absl::StatusOr<LoadedVideoModel> MakeFrom(const std::string& path,
                                          const data::SafetensorsHeader& file,
                                          LoadedValues values) {
  EVENSTEP_ASSIGN_OR_RETURN(const jobspec::ModelSpec spec, VideoSpecOf(file));
  EVENSTEP_RETURN_IF_ERROR(CheckVideoSizes(spec, file));
  LoadedVideoModel loaded;
  loaded.channels = spec.channels;
  loaded.patch = spec.patch;
  DiffusionTransformerConfig config;
  config.layers = spec.layers;
  config.width = spec.width;
  config.heads = spec.heads;
  config.channels = spec.channels * spec.patch * spec.patch;
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

// The value of a key, if it is there and not null.
const Json* FindIn(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found == config.end() || found->is_null() ? nullptr : &*found;
}

absl::Status NoCount(const char* key, const Json* found) {
  return absl::FailedPreconditionError(
      found == nullptr ? absl::StrCat("config.json: ", key, " is missing")
                       : absl::StrCat("config.json: ", key,
                                      " is no count: ", found->dump()));
}

absl::Status ReadCount(const Json& config, const char* key, int* value) {
  const Json* const found = FindIn(config, key);
  constexpr uint64_t kMost = std::numeric_limits<int>::max();
  if (found == nullptr || !found->is_number_unsigned() ||
      found->get<uint64_t>() > kMost) {
    return NoCount(key, found);
  }
  *value = found->get<int>();
  return absl::OkStatus();
}

absl::Status ReadNumberIfThere(const Json& config, const char* key,
                               double* value) {
  const Json* const found = FindIn(config, key);
  if (found == nullptr) return absl::OkStatus();
  if (!found->is_number()) {
    return absl::FailedPreconditionError(
        absl::StrCat("config.json: ", key, " is no number: ", found->dump()));
  }
  *value = found->get<double>();
  return absl::OkStatus();
}

// The same of Hugging Face's Llama, with its defaults.
absl::StatusOr<jobspec::ModelSpec> SpecOf(const Json& config) {
  jobspec::ModelSpec spec;
  for (const auto& [key, count] : {std::pair("num_hidden_layers", &spec.layers),
                                   {"hidden_size", &spec.width},
                                   {"num_attention_heads", &spec.heads},
                                   {"vocab_size", &spec.vocab},
                                   {"intermediate_size", &spec.mlp_width}}) {
    EVENSTEP_RETURN_IF_ERROR(ReadCount(config, key, count));
  }
  spec.kv_heads = spec.heads;
  if (FindIn(config, "num_key_value_heads") != nullptr) {
    EVENSTEP_RETURN_IF_ERROR(
        ReadCount(config, "num_key_value_heads", &spec.kv_heads));
  }
  spec.norm_epsilon = kLlamaEpsilon;
  EVENSTEP_RETURN_IF_ERROR(
      ReadNumberIfThere(config, "rms_norm_eps", &spec.norm_epsilon));
  EVENSTEP_RETURN_IF_ERROR(
      ReadNumberIfThere(config, "rope_theta", &spec.rope_theta));
  const Json* const rope = FindIn(config, "rope_parameters");
  if (rope != nullptr && rope->is_object()) {
    EVENSTEP_RETURN_IF_ERROR(
        ReadNumberIfThere(*rope, "rope_theta", &spec.rope_theta));
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
  EVENSTEP_RETURN_IF_ERROR(CheckTextSizes(spec, header));
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
  EVENSTEP_ASSIGN_OR_RETURN(const std::string file,
                            data::SafetensorsFileOf(path));
  EVENSTEP_ASSIGN_OR_RETURN(const data::SafetensorsHeader header,
                            data::ReadSafetensorsHeader(file));
  const auto kind = header.metadata.find("evenstep.model.kind");
  return kind != header.metadata.end() && kind->second == "video";
}

absl::StatusOr<LoadedTextModel> LoadTextModel(const std::string& path) {
  EVENSTEP_ASSIGN_OR_RETURN(const std::string file,
                            data::SafetensorsFileOf(path));
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
