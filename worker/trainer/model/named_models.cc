#include "worker/trainer/model/named_models.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace evenstep::trainer {
namespace {

absl::Status UnknownName(const NamedModels& models, const std::string& name) {
  if (models.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.name: '", name,
                     "' is unknown: this trainer was built with no custom "
                     "models; name the trainer that has it"));
  }
  std::vector<std::string> known;
  for (const auto& [own, make] : models) known.push_back(own);
  return absl::InvalidArgumentError(absl::StrCat("model.name: '", name,
                                                 "' is unknown to this trainer",
                                                 KnownNamesHint(name, known)));
}

absl::Status CheckLayers(const Model& model, const ModelRequest& request) {
  int layers = 0;
  for (const LayerKind& kind : model.layers()) layers += kind.count;
  if (layers == request.layers) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the model has ", layers, " layers, model.layers is ",
                   request.layers, ": plans would recompute others"));
}

absl::Status CheckParameters(const Model& model, const ModelRequest& request) {
  std::set<std::string> seen;
  for (const NamedParameter& parameter : model.parameters()) {
    const at::Tensor& value = parameter.value;
    if (!value.defined() || !value.is_leaf() || !value.requires_grad()) {
      return absl::InvalidArgumentError(absl::StrCat(
          parameter.name, " is not a leaf tensor that requires a gradient"));
    }
    if (value.scalar_type() != request.dtype) {
      return absl::InvalidArgumentError(absl::StrCat(
          parameter.name, " is ", c10::toString(value.scalar_type()),
          ", the job's precision ", c10::toString(request.dtype)));
    }
    if (!seen.insert(parameter.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two parameters are named ", parameter.name));
    }
  }
  if (!seen.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("the model has no parameters");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> MakeNamedModel(
    const NamedModels& models, const std::string& name,
    const ModelRequest& request) {
  const auto found = models.find(name);
  if (found == models.end()) return UnknownName(models, name);
  EVENSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                            found->second(request));
  EVENSTEP_RETURN_IF_ERROR(CheckLayers(*model, request));
  EVENSTEP_RETURN_IF_ERROR(CheckParameters(*model, request));
  return model;
}

}  // namespace evenstep::trainer
