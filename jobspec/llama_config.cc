#include "jobspec/llama_config.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "nlohmann/json.hpp"

namespace evenstep::jobspec {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxConfigBytes = 1 << 20;

absl::StatusOr<Json> ParseObject(absl::string_view text) {
  absl::StatusOr<Json> config = ParseStrictJson(text);
  if (!config.ok()) {
    return absl::DataLossError(
        absl::StrCat("config.json beside it: ", config.status().message()));
  }
  if (config->is_object()) return config;
  return absl::DataLossError("config.json beside it is not a JSON object");
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
                                      " is not a count: ", found->dump()));
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
    return absl::FailedPreconditionError(absl::StrCat(
        "config.json: ", key, " is not a number: ", found->dump()));
  }
  *value = found->get<double>();
  return absl::OkStatus();
}

// A key that, if it is there, must be this.
absl::Status CheckKey(const Json& config, const char* key, const Json& ours) {
  const Json* const found = FindIn(config, key);
  if (found == nullptr || *found == ours) return absl::OkStatus();
  return ModelDiffers(absl::StrCat("config.json: ", key), found->dump(),
                      ours.dump());
}

// A configuration that does not say its type may be one of an older Llama.
absl::Status CheckArchitecture(const Json& config) {
  const Json* const type = FindIn(config, "model_type");
  if (type == nullptr || *type == "llama") return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("config.json: model_type is ", type->dump(),
                   "; weights of \"llama\" alone can be read"));
}

// What a number means that is not there must be this.
absl::Status CheckDefault(const char* key, double meant, double ours) {
  if (meant == ours) return absl::OkStatus();
  return ModelDiffers(
      absl::StrCat("config.json: ", key, ", which is not there,"),
      absl::StrCat(meant), absl::StrCat(ours));
}

// Of older and of newer files.
absl::Status CheckRope(const Json& config, const ModelSpec& model) {
  EVENSTEP_RETURN_IF_ERROR(CheckKey(config, "rope_theta", model.rope_theta));
  bool is_said = FindIn(config, "rope_theta") != nullptr;
  for (const char* const name : {"rope_scaling", "rope_parameters"}) {
    const Json* const rope = FindIn(config, name);
    if (rope == nullptr || !rope->is_object()) continue;
    is_said = is_said || FindIn(*rope, "rope_theta") != nullptr;
    EVENSTEP_RETURN_IF_ERROR(CheckKey(*rope, "rope_theta", model.rope_theta));
    EVENSTEP_RETURN_IF_ERROR(CheckKey(*rope, "rope_type", "default"));
    EVENSTEP_RETURN_IF_ERROR(CheckKey(*rope, "type", "default"));
  }
  if (is_said) return absl::OkStatus();
  return CheckDefault("rope_theta", kRopeTheta, model.rope_theta);
}

}  // namespace

absl::Status ModelDiffers(absl::string_view what, absl::string_view theirs,
                          absl::string_view ours) {
  return absl::FailedPreconditionError(
      absl::StrCat(what, " is ", theirs, ", the job's model has ", ours));
}

absl::StatusOr<std::string> ReadConfigBeside(const std::string& weights_file) {
  const auto path =
      std::filesystem::path(weights_file).parent_path() / kConfigName;
  return ReadWholeFile(path.string(), kMaxConfigBytes);
}

absl::StatusOr<ModelSpec> ParseLlamaConfig(absl::string_view text) {
  EVENSTEP_ASSIGN_OR_RETURN(const Json config, ParseObject(text));
  EVENSTEP_RETURN_IF_ERROR(CheckArchitecture(config));
  ModelSpec spec;
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

absl::Status CheckLlamaConfig(absl::string_view text, const ModelSpec& model) {
  EVENSTEP_ASSIGN_OR_RETURN(const Json config, ParseObject(text));
  EVENSTEP_RETURN_IF_ERROR(CheckArchitecture(config));
  const std::pair<const char*, Json> keys[] = {
      {"num_attention_heads", model.heads},
      {"num_key_value_heads", model.kv_heads},
      {"rms_norm_eps", model.norm_epsilon},
      {"hidden_act", "silu"},
      {"attention_bias", false},
      {"mlp_bias", false}};
  for (const auto& [key, ours] : keys) {
    EVENSTEP_RETURN_IF_ERROR(CheckKey(config, key, ours));
  }
  EVENSTEP_RETURN_IF_ERROR(CheckRope(config, model));
  if (FindIn(config, "rms_norm_eps") != nullptr) return absl::OkStatus();
  return CheckDefault("rms_norm_eps", kLlamaEpsilon, model.norm_epsilon);
}

absl::StatusOr<int64_t> MaxPositions(absl::string_view text) {
  EVENSTEP_ASSIGN_OR_RETURN(const Json config, ParseObject(text));
  int positions = 0;
  const absl::Status read =
      ReadCount(config, "max_position_embeddings", &positions);
  return read.ok() ? positions : 0;
}

absl::StatusOr<bool> SaysTheHeadIsApart(absl::string_view text) {
  EVENSTEP_ASSIGN_OR_RETURN(const Json config, ParseObject(text));
  const Json* const tied = FindIn(config, "tie_word_embeddings");
  return tied != nullptr && *tied == false;
}

}  // namespace evenstep::jobspec
