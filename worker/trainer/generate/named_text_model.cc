#include "worker/trainer/generate/named_text_model.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/parse_value.h"
#include "base/status_macros.h"
#include "jobspec/rules/rules.h"
#include "planner/validate.h"
#include "worker/trainer/job/model_config.h"
#include "worker/trainer/job/weights.h"

namespace evenstep::trainer {
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
        "from TextModel (worker/trainer/model/text_model.h)"));
  }
  model->release();
  return std::unique_ptr<TextModel>(text);
}

}  // namespace evenstep::trainer
