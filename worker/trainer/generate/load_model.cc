#include "worker/trainer/generate/load_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "data/safetensors.h"
#include "worker/trainer/model/catch_torch.h"

namespace evenstep::trainer {
namespace {

absl::StatusOr<int> NumberIn(const data::SafetensorsFile& file,
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

absl::StatusOr<at::ScalarType> TypeOf(absl::string_view dtype) {
  if (dtype == "F32") return at::kFloat;
  if (dtype == "F64") return at::kDouble;
  if (dtype == "BF16") return at::kBFloat16;
  return absl::InvalidArgumentError(absl::StrCat("parameters of type ", dtype));
}

absl::Status CopyValues(const data::SafetensorsFile& file, Model* model) {
  const at::NoGradGuard without_graph;
  for (const NamedParameter& parameter : model->parameters()) {
    const data::TensorBytes* const stored = file.Find(parameter.name);
    if (stored == nullptr ||
        at::IntArrayRef(stored->shape) != parameter.value.sizes()) {
      return absl::InvalidArgumentError(absl::StrCat(
          parameter.name, " is ",
          stored == nullptr
              ? "missing"
              : absl::StrCat("[", absl::StrJoin(stored->shape, ", "), "]"),
          ", the model has [", absl::StrJoin(parameter.value.sizes(), ", "),
          "]"));
    }
    EVENSTEP_ASSIGN_OR_RETURN(const at::ScalarType type, TypeOf(stored->dtype));
    parameter.value.copy_(at::from_blob(const_cast<char*>(stored->bytes.data()),
                                        stored->shape,
                                        at::TensorOptions().dtype(type)));
  }
  return absl::OkStatus();
}

absl::StatusOr<LoadedVideoModel> MakeFrom(const data::SafetensorsFile& file,
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
    EVENSTEP_RETURN_IF_ERROR(CopyValues(file, loaded.model.get()));
  }
  return loaded;
}

}  // namespace

absl::StatusOr<LoadedVideoModel> LoadVideoModel(const std::string& path,
                                                LoadedValues values) {
  EVENSTEP_ASSIGN_OR_RETURN(const data::SafetensorsFile file,
                            data::ReadSafetensors(path));
  LoadedVideoModel loaded;
  EVENSTEP_RETURN_IF_ERROR(CatchTorch(path, [&]() -> absl::Status {
    EVENSTEP_ASSIGN_OR_RETURN(loaded, MakeFrom(file, values));
    return absl::OkStatus();
  }));
  return loaded;
}

}  // namespace evenstep::trainer
