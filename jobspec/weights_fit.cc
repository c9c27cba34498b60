#include "jobspec/weights_fit.h"

#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "jobspec/plan_request.h"

namespace evenstep::jobspec {
namespace {

using data::TensorPlace;

constexpr char kPrefix[] = "model.";
constexpr char kEmbedding[] = "model.embed_tokens.weight";
// Tables that old files carry beside the parameters.
constexpr char kAngles[] = "rotary_emb.inv_freq";
// Rows of a video model's tables: shift, scale and gate of attention and of the
// MLP; shift and scale at the end.
constexpr int64_t kModulations = 6;
constexpr int64_t kFinalModulations = 2;

const TensorPlace* PlaceOf(const data::SafetensorsHeader& header,
                           const std::string& name) {
  const TensorPlace* place = header.Find(name);
  if (place == nullptr && absl::StartsWith(name, kPrefix)) {
    place = header.Find(absl::StripPrefix(name, kPrefix));
  }
  if (place == nullptr && name == kHeadTensor) {
    return PlaceOf(header, kEmbedding);
  }
  return place;
}

absl::Status CheckType(const TensorPlace& place) {
  for (const char* const known : {"F64", "F32", "F16", "BF16"}) {
    if (place.dtype == known) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("tensor '", place.name, "' is of type ", place.dtype,
                   "; F64, F32, F16 and BF16 can be read"));
}

void AddDecoderLayer(const ModelSpec& model, int layer,
                     std::vector<TensorShape>* tensors) {
  const std::string prefix = absl::StrCat("model.layers.", layer, ".");
  const int64_t width = model.width;
  const int64_t keys = width / model.heads * model.kv_heads;
  const int64_t mlp = MlpWidthOf(model);
  for (const auto& [name, shape] :
       std::vector<std::pair<const char*, std::vector<int64_t>>>{
           {"input_layernorm.weight", {width}},
           {"self_attn.q_proj.weight", {width, width}},
           {"self_attn.k_proj.weight", {keys, width}},
           {"self_attn.v_proj.weight", {keys, width}},
           {"self_attn.o_proj.weight", {width, width}},
           {"post_attention_layernorm.weight", {width}},
           {"mlp.gate_proj.weight", {mlp, width}},
           {"mlp.up_proj.weight", {mlp, width}},
           {"mlp.down_proj.weight", {width, mlp}}}) {
    tensors->push_back({prefix + name, shape});
  }
}

std::vector<TensorShape> DecoderTensors(const ModelSpec& model) {
  std::vector<TensorShape> tensors = {{kEmbedding, {model.vocab, model.width}}};
  for (int layer = 0; layer < model.layers; ++layer) {
    AddDecoderLayer(model, layer, &tensors);
  }
  tensors.push_back({"model.norm.weight", {model.width}});
  tensors.push_back({kHeadTensor, {model.vocab, model.width}});
  return tensors;
}

std::vector<TensorShape> VideoTensors(const ModelSpec& model) {
  const int64_t width = model.width;
  const int64_t values = int64_t{model.patch} * model.patch * model.channels;
  const int64_t mlp = DecoderMlpWidth(model.width);
  std::vector<TensorShape> tensors = {
      {"patch_embed.weight", {width, values}},
      {"t_embed.0.weight", {width, width}},
      {"t_embed.2.weight", {width, width}},
      {"t_block.weight", {kModulations * width, width}}};
  for (int layer = 0; layer < model.layers; ++layer) {
    const std::string prefix = absl::StrCat("blocks.", layer, ".");
    tensors.push_back({prefix + "scale_shift_table", {kModulations, width}});
    for (const char* const name : {"q", "k", "v", "o"}) {
      tensors.push_back({absl::StrCat(prefix, "attn.", name, "_proj.weight"),
                         {width, width}});
    }
    tensors.push_back({prefix + "mlp.gate_proj.weight", {mlp, width}});
    tensors.push_back({prefix + "mlp.up_proj.weight", {mlp, width}});
    tensors.push_back({prefix + "mlp.down_proj.weight", {width, mlp}});
  }
  tensors.push_back(
      {"final_layer.scale_shift_table", {kFinalModulations, width}});
  tensors.push_back({"final_layer.weight", {values, width}});
  return tensors;
}

}  // namespace

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

std::vector<TensorShape> TensorsOf(const ModelSpec& model) {
  return model.is_video() ? VideoTensors(model) : DecoderTensors(model);
}

absl::Status CheckTensor(const data::SafetensorsHeader& header,
                         const TensorShape& tensor) {
  const TensorPlace* const place = PlaceOf(header, tensor.name);
  if (place == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("tensor '", tensor.name, "' is missing; the model's is ",
                     ShapeText(tensor.shape)));
  }
  if (place->shape == tensor.shape) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "tensor '", place->name, "' has shape ", ShapeText(place->shape),
      ", the model's has ", ShapeText(tensor.shape)));
}

absl::StatusOr<std::vector<const TensorPlace*>> FindTensors(
    const data::SafetensorsHeader& header,
    const std::vector<TensorShape>& tensors) {
  std::vector<const TensorPlace*> places;
  std::set<const TensorPlace*> used;
  for (const TensorShape& tensor : tensors) {
    EVENSTEP_RETURN_IF_ERROR(CheckTensor(header, tensor));
    places.push_back(PlaceOf(header, tensor.name));
    EVENSTEP_RETURN_IF_ERROR(CheckType(*places.back()));
    used.insert(places.back());
  }
  for (const TensorPlace& place : header.places) {
    if (used.count(&place) > 0 || absl::EndsWith(place.name, kAngles)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("tensor '", place.name, "' ", ShapeText(place.shape),
                     " is not of the model, which has ", tensors.size(),
                     " tensors up to '", tensors.back().name, "'"));
  }
  return places;
}

}  // namespace evenstep::jobspec
