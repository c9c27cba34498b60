#include "worker/trainer/job/load_weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <fstream>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/fnv1a.h"
#include "base/status_macros.h"
#include "data/safetensors.h"
#include "jobspec/weights_model.h"
#include "worker/trainer/model/catch_torch.h"

namespace evenstep::trainer {
namespace {

using data::TensorPlace;

constexpr char kPrefix[] = "model.";
constexpr char kHead[] = "lm_head.weight";
constexpr char kEmbedding[] = "model.embed_tokens.weight";
// Tables that old files carry beside the parameters.
constexpr char kAngles[] = "rotary_emb.inv_freq";

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
  return jobspec::WithPath(
      CatchTorch("reading weights", [&] { return Load(file, parameters); }),
      file);
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
