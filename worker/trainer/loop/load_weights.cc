#include "worker/trainer/loop/load_weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/atomic_file.h"
#include "base/fnv1a.h"
#include "base/status_macros.h"
#include "data/safetensors.h"
#include "nlohmann/json.hpp"
#include "worker/trainer/loop/weights.h"
#include "worker/trainer/model/catch_torch.h"

namespace evenstep::trainer {
namespace {

using data::TensorPlace;
using Json = nlohmann::json;

constexpr char kPrefix[] = "model.";
constexpr char kHead[] = "lm_head.weight";
constexpr char kEmbedding[] = "model.embed_tokens.weight";
// Tables that old files carry beside the parameters.
constexpr char kAngles[] = "rotary_emb.inv_freq";
constexpr int64_t kMaxConfigBytes = 1 << 20;

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::StatusOr<at::ScalarType> TypeOf(const TensorPlace& place) {
  if (place.dtype == "F32") return at::kFloat;
  if (place.dtype == "F64") return at::kDouble;
  if (place.dtype == "BF16") return at::kBFloat16;
  if (place.dtype == "F16") return at::kHalf;
  return absl::FailedPreconditionError(
      absl::StrCat("tensor '", place.name, "' is of type ", place.dtype,
                   "; F64, F32, F16 and BF16 can be read"));
}

const TensorPlace* PlaceOf(const data::SafetensorsHeader& header,
                           const std::string& name) {
  const TensorPlace* place = header.Find(name);
  if (place == nullptr && absl::StartsWith(name, kPrefix)) {
    place = header.Find(absl::StripPrefix(name, kPrefix));
  }
  if (place == nullptr && name == kHead) return PlaceOf(header, kEmbedding);
  return place;
}

// A parameter and where its values are.
struct Pair {
  const NamedParameter* parameter;
  const TensorPlace* place;
  at::ScalarType type;
};

absl::StatusOr<Pair> PairOf(const data::SafetensorsHeader& header,
                            const NamedParameter& parameter) {
  EVENSTEP_RETURN_IF_ERROR(
      CheckTensor(header, parameter.name, parameter.value.sizes().vec()));
  const TensorPlace* const place = PlaceOf(header, parameter.name);
  EVENSTEP_ASSIGN_OR_RETURN(const at::ScalarType type, TypeOf(*place));
  return Pair{&parameter, place, type};
}

absl::StatusOr<std::vector<Pair>> PairsOf(
    const data::SafetensorsHeader& header,
    const std::vector<NamedParameter>& parameters) {
  std::vector<Pair> pairs;
  std::set<const TensorPlace*> used;
  for (const NamedParameter& parameter : parameters) {
    EVENSTEP_ASSIGN_OR_RETURN(const Pair pair, PairOf(header, parameter));
    used.insert(pair.place);
    pairs.push_back(pair);
  }
  for (const TensorPlace& place : header.places) {
    if (used.count(&place) > 0 || absl::EndsWith(place.name, kAngles)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("tensor '", place.name, "' ", ShapeText(place.shape),
                     " is not of the model, which has ", parameters.size(),
                     " tensors up to '", parameters.back().name, "'"));
  }
  return pairs;
}

absl::Status ReadValues(const Pair& pair, std::ifstream* in) {
  std::string bytes(static_cast<size_t>(pair.place->bytes), '\0');
  in->seekg(pair.place->offset);
  in->read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (in->gcount() != static_cast<std::streamsize>(bytes.size())) {
    return absl::DataLossError(
        absl::StrCat("tensor '", pair.place->name, "' cannot be read"));
  }
  const at::Tensor stored = at::from_blob(bytes.data(), pair.place->shape,
                                          at::TensorOptions().dtype(pair.type));
  at::Tensor value = pair.parameter->value;
  value.copy_(stored);
  return absl::OkStatus();
}

absl::Status Load(const std::string& file,
                  const std::vector<NamedParameter>& parameters) {
  EVENSTEP_ASSIGN_OR_RETURN(const data::SafetensorsHeader header,
                            data::ReadSafetensorsHeader(file));
  EVENSTEP_ASSIGN_OR_RETURN(const std::vector<Pair> pairs,
                            PairsOf(header, parameters));
  const at::NoGradGuard without_graph;
  std::ifstream in(file, std::ios::binary);
  for (const Pair& pair : pairs)
    EVENSTEP_RETURN_IF_ERROR(ReadValues(pair, &in));
  return absl::OkStatus();
}

absl::Status WithPath(const absl::Status& status, const std::string& path) {
  if (status.ok() || absl::StrContains(status.message(), path)) return status;
  return absl::Status(status.code(),
                      absl::StrCat(path, ": ", status.message()));
}

absl::Status Differs(absl::string_view what, absl::string_view theirs,
                     absl::string_view ours) {
  return absl::FailedPreconditionError(
      absl::StrCat(what, " is ", theirs, ", the job's model has ", ours));
}

// What a job says of its model in words; others say nothing.
absl::Status CheckWords(const data::SafetensorsMetadata& metadata,
                        const jobspec::ModelSpec& model) {
  const auto word = [&](const char* key, absl::string_view usual,
                        absl::string_view ours) {
    const auto found = metadata.find(key);
    const absl::string_view theirs =
        found == metadata.end() ? usual : absl::string_view(found->second);
    return theirs == ours ? absl::OkStatus() : Differs(key, theirs, ours);
  };
  constexpr char kNone[] = "none";
  EVENSTEP_RETURN_IF_ERROR(
      word("evenstep.model.name", kNone,
           model.name.empty() ? kNone : absl::string_view(model.name)));
  EVENSTEP_RETURN_IF_ERROR(word(
      "evenstep.model.kind", jobspec::ModelKindName(jobspec::ModelKind::kText),
      jobspec::ModelKindName(model.kind)));
  if (model.is_video() || !model.name.empty()) return absl::OkStatus();
  return word("evenstep.model.attention",
              jobspec::AttentionName(model.attention),
              jobspec::AttentionName(model.attention));
}

absl::Status CheckMetadata(const data::SafetensorsMetadata& metadata,
                           const jobspec::ModelSpec& model) {
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
    return Differs(key, found->second, absl::StrCat(ours));
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

// A key of Hugging Face's configuration that, if it is there, must be this.
absl::Status CheckKey(const Json& config, const char* key, const Json& ours) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null() || *found == ours) {
    return absl::OkStatus();
  }
  return Differs(absl::StrCat("config.json: ", key), found->dump(),
                 ours.dump());
}

absl::Status CheckConfig(const Json& config, const jobspec::ModelSpec& model) {
  const std::pair<const char*, Json> keys[] = {
      {"model_type", "llama"},
      {"num_attention_heads", model.heads},
      {"num_key_value_heads", model.kv_heads},
      {"rms_norm_eps", model.norm_epsilon},
      {"rope_theta", model.rope_theta},
      {"hidden_act", "silu"},
      {"attention_bias", false},
      {"mlp_bias", false}};
  for (const auto& [key, ours] : keys) {
    EVENSTEP_RETURN_IF_ERROR(CheckKey(config, key, ours));
  }
  // Of older and of newer files.
  for (const char* const name : {"rope_scaling", "rope_parameters"}) {
    const auto rope = config.find(name);
    if (rope == config.end() || !rope->is_object()) continue;
    EVENSTEP_RETURN_IF_ERROR(CheckKey(*rope, "rope_theta", model.rope_theta));
    EVENSTEP_RETURN_IF_ERROR(CheckKey(*rope, "rope_type", "default"));
    EVENSTEP_RETURN_IF_ERROR(CheckKey(*rope, "type", "default"));
  }
  const auto epsilon = config.find("rms_norm_eps");
  if ((epsilon != config.end() && !epsilon->is_null()) ||
      model.norm_epsilon == kLlamaEpsilon) {
    return absl::OkStatus();
  }
  return Differs("config.json: rms_norm_eps, which is not there,",
                 absl::StrCat(kLlamaEpsilon), absl::StrCat(model.norm_epsilon));
}

absl::Status CheckBoth(const std::string& file,
                       const jobspec::ModelSpec& model) {
  EVENSTEP_ASSIGN_OR_RETURN(const data::SafetensorsHeader header,
                            data::ReadSafetensorsHeader(file));
  EVENSTEP_RETURN_IF_ERROR(CheckMetadata(header.metadata, model));
  if (model.is_video() || !model.name.empty()) return absl::OkStatus();
  const auto path = std::filesystem::path(file).parent_path() / kConfigName;
  const auto text = ReadWholeFile(path.string(), kMaxConfigBytes);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  EVENSTEP_RETURN_IF_ERROR(text.status());
  const Json config = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    return absl::DataLossError("config.json beside it is no JSON object");
  }
  return CheckConfig(config, model);
}

}  // namespace

absl::Status CheckTensor(const data::SafetensorsHeader& header,
                         const std::string& name,
                         const std::vector<int64_t>& shape) {
  const TensorPlace* const place = PlaceOf(header, name);
  if (place == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "tensor '", name, "' is missing; the model's is ", ShapeText(shape)));
  }
  if (place->shape == shape) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "tensor '", place->name, "' has shape ", ShapeText(place->shape),
      ", the model's has ", ShapeText(shape)));
}

absl::Status LoadWeights(const std::string& path,
                         const std::vector<NamedParameter>& parameters) {
  EVENSTEP_ASSIGN_OR_RETURN(const std::string file,
                            data::SafetensorsFileOf(path));
  return WithPath(
      CatchTorch("reading weights", [&] { return Load(file, parameters); }),
      file);
}

absl::Status CheckModelOfWeights(const std::string& path,
                                 const jobspec::ModelSpec& model) {
  EVENSTEP_ASSIGN_OR_RETURN(const std::string file,
                            data::SafetensorsFileOf(path));
  return WithPath(CheckBoth(file, model), file);
}

uint64_t WeightsKey(const std::vector<NamedParameter>& parameters) {
  Fnv1a64 key;
  for (const NamedParameter& parameter : parameters) {
    const at::Tensor value = parameter.value.detach().cpu().contiguous();
    key.AddString(parameter.name);
    key.AddBytes({static_cast<const char*>(value.data_ptr()), value.nbytes()});
  }
  return key.value();
}

}  // namespace evenstep::trainer
